package command

import (
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"worldevents/models"
)

// UserAdd adds a user.
type UserAdd struct {
	Name string `arg:"" help:"1 to 100 characters, unique exactly as written."`
}

// UserList prints all users.
type UserList struct{}

// UserRename gives a user another name.
type UserRename struct {
	Names  []string `arg:"" name:"name" help:"The username, unless --user-id says who it is, and the new one."`
	UserID string   `name:"user-id" help:"Instead of the username: the id, as logs have it." placeholder:"ID"`
}

// whom names the user of a command. A name is never read as an id, since somebody may be called like one.
type whom struct {
	Name   string `arg:"" optional:"" help:"The username."`
	UserID string `name:"user-id" help:"Instead of a username: the id, as logs have it." placeholder:"ID"`
}

// who asks no database: the user need not exist.
func (w whom) who() (models.Who, error) {
	if (w.Name == "") == (w.UserID == "") {
		return models.Who{}, errors.New("needs one of: a username, --user-id")
	}
	if w.UserID == "" {
		return models.Who{Username: w.Name}, nil
	}
	id, err := models.ParseID(w.UserID)
	if err != nil {
		return models.Who{}, fmt.Errorf("--user-id: %w", err)
	}
	return models.Who{ID: id}, nil
}

func (w whom) withUser(needKey bool, fn func(cmd *command, who models.Who) error) error {
	who, err := w.who()
	if err != nil {
		return err
	}
	return withStore(needKey, func(cmd *command) error { return fn(cmd, who) })
}

type userLine struct {
	ID       models.ID  `json:"id"`
	Username string     `json:"username"`
	Created  time.Time  `json:"created"`
	Blocked  *time.Time `json:"blocked"` // when; null if the user is not blocked
}

func newUserLine(u models.User) userLine {
	return userLine{u.ID, u.Username, u.CreatedAt.UTC(), utc(u.BlockedAt)}
}

// utc is t in UTC; nil stays nil.
func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}

// namedUser is a user whom a command has changed.
type namedUser struct {
	ID       models.ID `json:"id"`
	Username string    `json:"username"`
}

func (a UserAdd) Run() error {
	return withStore(false, func(cmd *command) error {
		user, err := cmd.store.AddUser(cmd, a.Name)
		if err != nil {
			return err
		}
		cmd.audit("user add", "user", user.ID, "username", user.Username)
		return printJSON(namedUser(user))
	})
}

func (UserList) Run() error {
	return withStore(false, func(cmd *command) error {
		return printArray(func(print func(any) error) error {
			return cmd.store.EachUser(cmd, func(u models.User) error { return print(newUserLine(u)) })
		})
	})
}

// Run renames a user. With --user-id the only argument is the new name.
func (r UserRename) Run() error {
	// kong cannot say "one argument with --user-id, otherwise two", so Run counts them.
	user, to := whom{UserID: r.UserID}, r.Names[len(r.Names)-1]
	if r.UserID == "" {
		user.Name = r.Names[0]
	}
	if want := 1 + given(r.UserID == ""); len(r.Names) != want {
		return errors.New("user rename needs the username, or --user-id, and the new name")
	}
	return user.withUser(false, func(cmd *command, who models.Who) error {
		user, err := cmd.store.RenameUser(cmd, who, to)
		if err != nil {
			return err
		}
		cmd.audit("user rename", "user", user.ID, "username", user.Username, "to", to)
		return printJSON(namedUser{user.ID, to})
	})
}

// UserBlock keeps a user from signing in, and ends their sessions.
type UserBlock struct{ whom }

// UserUnblock lets a user sign in again.
type UserUnblock struct {
	whom
	Identity string `help:"Instead of a username: what user remove --block has printed as identity." placeholder:"SHA256"`
}

func (b UserBlock) Run() error {
	return b.withUser(false, func(cmd *command, who models.Who) error {
		user, changed, err := cmd.store.BlockUser(cmd, who)
		return printBlocked(cmd, "user block", user, changed, err)
	})
}

func (u UserUnblock) Run() error {
	if n := given(u.Name != "") + given(u.UserID != "") + given(u.Identity != ""); n != 1 {
		return errors.New("user unblock needs one of: a username, --user-id, --identity")
	}
	if u.Identity != "" {
		return u.unblockIdentity()
	}
	return u.withUser(false, func(cmd *command, who models.Who) error {
		user, changed, err := cmd.store.UnblockUser(cmd, who)
		return printBlocked(cmd, "user unblock", user, changed, err)
	})
}

func (u UserUnblock) unblockIdentity() error {
	identity, err := parseIdentity(u.Identity)
	if err != nil {
		return fmt.Errorf("--identity: %w", err)
	}
	return withStore(false, func(cmd *command) error {
		changed, err := cmd.store.UnblockIdentity(cmd, identity)
		switch {
		case err != nil:
			return err
		case !changed:
			return errors.New("--identity: is not blocked")
		}
		cmd.audit("user unblock", "identity", u.Identity)
		return printJSON(map[string]any{"identity": u.Identity})
	})
}

func parseIdentity(text string) (identity models.Hash, err error) {
	if n, err := hex.Decode(identity[:], []byte(text)); len(text) != 2*len(identity) || n != len(identity) || err != nil {
		return identity, errors.New("must be 64 hexadecimal digits")
	}
	return identity, nil
}

// printBlocked prints the user of a block or unblock, and leaves an audit line if that changed something. Replay needs the hash of the
// identity where a backup does not have the user.
func printBlocked(cmd *command, action string, user models.User, changed bool, err error) error {
	if err != nil {
		return err
	}
	if changed {
		attributes := []any{"user", user.ID, "username", user.Username}
		if hash := user.IdentityHash(); hash != nil {
			attributes = append(attributes, "identity", hex.EncodeToString(hash[:]))
		}
		cmd.audit(action, attributes...)
	}
	return printJSON(namedUser{user.ID, user.Username})
}
