package command

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"worldevents/gen"
	"worldevents/models"
)

type (
	// UserAdd adds a user.
	UserAdd struct {
		Name string `arg:"" help:"1 to 100 characters, unique exactly as written."`
	}
	// UserList prints all users.
	UserList struct{}
	// UserShow prints all that is kept about a user.
	UserShow struct{ whom }
	// UserRename gives a user another name.
	UserRename struct {
		Names  []string `arg:"" name:"name" help:"The username, unless --user-id says who it is, and the new one."`
		UserID string   `name:"user-id" help:"Instead of the username: the id, as logs have it." placeholder:"ID"`
	}
	// UserBlock keeps a user from signing in, and ends their sessions.
	UserBlock struct{ whom }
	// UserUnblock lets a user sign in again.
	UserUnblock struct {
		whom
		Identity string `help:"Instead of a username: what user remove --block has printed as identity." placeholder:"SHA256"`
	}
	// UserRemove deletes a user.
	UserRemove struct {
		whom
		Block  bool `help:"Keep a SHA-256 of who the user is at the identity provider, so that they cannot come back as a new user."`
		Events bool `help:"Remove the events that they have created, too, in small batches."`
		DryRun bool `help:"Only count."`
	}
)

// whom says which user a command is about. A name is never read as an id: somebody may be called like one.
type whom struct {
	Name   string `arg:"" optional:"" help:"The username."`
	UserID string `name:"user-id" help:"Instead of a username: the id, as logs have it." placeholder:"ID"`
}

// who is the user, who need not exist.
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

// operateOn is operate with the user.
func (w whom) operateOn(needKey bool, fn func(o *operation, who models.Who) error) error {
	who, err := w.who()
	if err != nil {
		return err
	}
	return operate(needKey, func(o *operation) error { return fn(o, who) })
}

// userLine is what commands print of a user.
type userLine struct {
	ID       models.ID  `json:"id"`
	Username string     `json:"username"`
	Created  time.Time  `json:"created"`
	Blocked  *time.Time `json:"blocked"` // since when
}

func newUserLine(u models.User) userLine {
	return userLine{u.ID, u.Username, u.CreatedAt.UTC(), utc(u.BlockedAt)}
}

// utc is t in UTC; nil stays nil.
func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// namedUser is what commands print of a user whom they have changed.
type namedUser struct {
	ID       models.ID `json:"id"`
	Username string    `json:"username"`
}

// Run adds a user.
func (a UserAdd) Run() error {
	return operate(false, func(o *operation) error {
		user, err := o.store.AddUser(o, a.Name)
		if err != nil {
			return err
		}
		o.audit("user add", "user", user.ID, "username", user.Username)
		return printJSON(namedUser(user))
	})
}

// Run lists all users.
func (UserList) Run() error {
	return operate(false, func(o *operation) error {
		return printArray(func(print func(any) error) error {
			return o.store.EachUser(o, func(u models.User) error { return print(newUserLine(u)) })
		})
	})
}

// person is all that is kept about a user.
type person struct {
	userLine
	Issuer   *string         `json:"issuer"`
	Subject  *string         `json:"subject"`
	Folded   *string         `json:"folded"`   // what other names are compared with
	Skeleton *string         `json:"skeleton"` // likewise
	Sessions []personSession `json:"sessions"`
	Events   []personEvent   `json:"events"`
	RSVPs    []personRSVP    `json:"rsvps"`
}

// personSession is a session, over or not.
type personSession struct {
	sessionLine
	Revoked *time.Time `json:"revoked"`
	// ProviderSID is the session of the identity provider that this one began with.
	ProviderSID *string `json:"providerSid,omitempty"`
}

// personEvent is an event that the user has created.
type personEvent struct {
	ID          models.ID    `json:"id"`
	World       string       `json:"world"`
	Name        string       `json:"name"`
	Description string       `json:"description"`
	ScheduledAt gen.DateTime `json:"scheduledAt"`
	Created     time.Time    `json:"created"`
}

// personRSVP is an event that the user has joined.
type personRSVP struct {
	Event       models.ID    `json:"event"`
	World       string       `json:"world"`
	Name        string       `json:"name"`
	ScheduledAt gen.DateTime `json:"scheduledAt"`
	Joined      time.Time    `json:"joined"`
}

// Run prints all that is kept about a user.
func (s UserShow) Run() error {
	return s.operateOn(false, func(o *operation, who models.Who) error {
		found, err := o.store.FindPerson(o, who)
		if err != nil {
			return err
		}
		p := person{
			userLine: newUserLine(found.User), Issuer: found.Issuer, Subject: found.Subject, Folded: found.Folded, Skeleton: found.Skeleton,
			Sessions: []personSession{}, Events: []personEvent{}, RSVPs: []personRSVP{},
		}
		for _, s := range found.Sessions {
			p.Sessions = append(p.Sessions, personSession{newSessionLine(s), utc(s.RevokedAt), s.ProviderSID})
		}
		for _, e := range found.Events {
			p.Events = append(p.Events, personEvent{e.ID, e.WorldID, e.Name, e.Description, gen.DateTime(e.ScheduledAt), e.CreatedAt.UTC()})
		}
		for _, r := range found.RSVPs {
			p.RSVPs = append(p.RSVPs, personRSVP{r.EventID, r.WorldID, r.Name, gen.DateTime(r.ScheduledAt), r.CreatedAt.UTC()})
		}
		return printJSON(p)
	})
}

// Run renames a user.
func (r UserRename) Run() error {
	user, to := whom{UserID: r.UserID}, r.Names[len(r.Names)-1]
	if r.UserID == "" {
		user.Name = r.Names[0]
	}
	if want := 1 + given(r.UserID == ""); len(r.Names) != want {
		return errors.New("user rename needs the username, or --user-id, and the new name")
	}
	return user.operateOn(false, func(o *operation, who models.Who) error {
		user, err := o.store.RenameUser(o, who, to)
		if err != nil {
			return err
		}
		o.audit("user rename", "user", user.ID, "username", user.Username, "to", to)
		return printJSON(namedUser{user.ID, to})
	})
}

// Run blocks a user.
func (b UserBlock) Run() error {
	return b.operateOn(false, func(o *operation, who models.Who) error {
		user, changed, err := o.store.BlockUser(o, who)
		return printBlocked(o, "user block", user, changed, err)
	})
}

// Run unblocks a user, or an identity.
func (u UserUnblock) Run() error {
	if n := given(u.Name != "") + given(u.UserID != "") + given(u.Identity != ""); n != 1 {
		return errors.New("user unblock needs one of: a username, --user-id, --identity")
	}
	if u.Identity != "" {
		return u.unblockIdentity()
	}
	return u.operateOn(false, func(o *operation, who models.Who) error {
		user, changed, err := o.store.UnblockUser(o, who)
		return printBlocked(o, "user unblock", user, changed, err)
	})
}

func (u UserUnblock) unblockIdentity() error {
	identity, err := parseIdentity(u.Identity)
	if err != nil {
		return fmt.Errorf("--identity: %w", err)
	}
	return operate(false, func(o *operation) error {
		changed, err := o.store.UnblockIdentity(o, identity)
		switch {
		case err != nil:
			return err
		case !changed:
			return errors.New("--identity: is not blocked")
		}
		o.audit("user unblock", "identity", u.Identity)
		return printJSON(struct {
			Identity string `json:"identity"`
		}{u.Identity})
	})
}

func parseIdentity(text string) (identity models.Hash, err error) {
	if n, err := hex.Decode(identity[:], []byte(text)); len(text) != 2*len(identity) || n != len(identity) || err != nil {
		return identity, errors.New("must be 64 hexadecimal digits")
	}
	return identity, nil
}

// printBlocked says what has become of a user whom action was to block or to unblock.
func printBlocked(o *operation, action string, user models.User, changed bool, err error) error {
	if err != nil {
		return err
	}
	if changed {
		attributes := []any{"user", user.ID, "username", user.Username}
		if hash := user.IdentityHash(); hash != nil {
			attributes = append(attributes, "identity", hex.EncodeToString(hash[:]))
		}
		o.audit(action, attributes...)
	}
	return printJSON(namedUser{user.ID, user.Username})
}

// Run removes a user. The audit line has no name.
func (r UserRemove) Run() error {
	return r.operateOn(false, func(o *operation, who models.Who) error {
		progress := newProgress()
		removed, err := o.store.RemoveUser(o, who, models.UserRemoval{Block: r.Block, Events: r.Events, DryRun: r.DryRun, Progress: progress.tellEvents})
		progress.end()
		if err != nil {
			return r.failed(o, removed, err)
		}
		result := struct {
			ID       models.ID      `json:"id"`
			Sessions int64          `json:"sessions"`
			RSVPs    int64          `json:"rsvps"`
			Events   int64          `json:"events"` // which stay, without a creator
			Created  *removedEvents `json:"created,omitempty"`
			Identity string         `json:"identity,omitempty"`
			DryRun   bool           `json:"dryRun,omitempty"`
		}{ID: removed.ID, Sessions: removed.Sessions, RSVPs: removed.RSVPs, Events: removed.Events, DryRun: r.DryRun}
		attributes := []any{"user", removed.ID}
		if r.Events {
			result.Created = &removedEvents{removed.Created.Events, removed.Created.RSVPs}
			attributes = append(attributes, "events", removed.Created.Events, "rsvps", removed.Created.RSVPs)
		}
		if removed.Identity != nil {
			result.Identity = hex.EncodeToString(removed.Identity[:])
			attributes = append(attributes, "identity", result.Identity)
		}
		if !r.DryRun {
			o.audit("user remove", attributes...)
		}
		return printJSON(result)
	})
}

// removedEvents is what commands print of the events that went with a user.
type removedEvents struct {
	Events int64 `json:"events"`
	RSVPs  int64 `json:"rsvps"`
}

// failed says what is gone of a user who is not.
func (r UserRemove) failed(o *operation, removed models.Removed, err error) error {
	if removed.Created.Events > 0 && !r.DryRun {
		o.audit("event remove", "user", removed.ID, "world", "", "events", removed.Created.Events, "rsvps", removed.Created.RSVPs)
	}
	if errors.Is(err, context.Canceled) && r.Events {
		return errInterrupted(removed.Created)
	}
	return err
}
