package command

import (
	"errors"
	"fmt"
	"os"

	"worldevents/models"
)

// Replay repeats what commands have done to people and events since the backup that was restored.
type Replay struct {
	File   string `arg:"" help:"A log with the lines that commands have left, oldest first; - for standard input."`
	DryRun bool   `help:"Only print the audit lines of the log."`
}

// Run goes by ids, and does for each user only what the lines come to in the end. So the log may begin before the backup, and the command
// may run twice.
func (r Replay) Run() error {
	log := os.Stdin
	if r.File != "-" {
		var err error
		if log, err = os.Open(r.File); err != nil {
			return err
		}
		defer log.Close()
	}
	done, err := readAudit(log)
	if err != nil {
		return fmt.Errorf("%s: %w", r.File, err)
	}
	if r.DryRun {
		return printJSON(map[string]any{"lines": done.lines})
	}
	return withStore(false, func(cmd *command) error {
		replay := replay{command: cmd}
		if err := replay.all(done); err != nil {
			return err
		}
		return printJSON(map[string]any{"repeated": replay.repeated})
	})
}

type replay struct {
	*command
	repeated int
}

// again counts a change and leaves an audit line of its own, so that the next restore can replay this one, too.
func (r *replay) again(action string, attributes ...any) {
	r.repeated++
	r.audit(action, append(attributes, "repeated", true)...)
}

// all repeats everything. Identities come first: a blocked one must not sign in meanwhile. Names come last: one may become free only when
// another user is renamed, so renaming goes on in rounds until one renames nobody. A name that is left then belongs to somebody else.
func (r *replay) all(done audited) error {
	for identity, blocked := range done.identities {
		if err := r.identity(identity, blocked); err != nil {
			return err
		}
	}
	for id, created := range done.events {
		// An event that the backup does not have is removed already.
		removed, err := r.store.RemoveEventOf(r, id, created)
		if removed.Events > 0 {
			about := []any{"event", id, "rsvps", removed.RSVPs}
			if !created.IsZero() {
				about = append(about, "created", exact(created))
			}
			r.again("event remove", about...)
		}
		if err != nil && !errors.Is(err, models.ErrNoEvent) {
			return err
		}
	}
	for _, filter := range done.created { // before their creators are removed
		removed, err := r.store.RemoveEvents(r, models.EventRemoval{EventFilter: filter, Progress: func(models.RemovedEvents) {}})
		if removed.Events > 0 {
			r.again("event remove", "user", filter.Creator, "world", filter.World, "since", exact(filter.Since), "until", exact(filter.Until), "events", removed.Events, "rsvps", removed.RSVPs)
		}
		if err != nil {
			return err
		}
	}
	for id, user := range done.users {
		if err := r.user(id, user); err != nil {
			return err
		}
	}
	for {
		before, taken := r.repeated, error(nil)
		for id, user := range done.users {
			if user.username == "" || user.removed {
				continue
			}
			if err := r.rename(id, user.username); errors.Is(err, models.ErrUserExists) || errors.Is(err, models.ErrUserAlike) {
				taken = fmt.Errorf("rename %s to %q: %w", id, user.username, err)
			} else if err != nil {
				return err
			}
		}
		if taken == nil || r.repeated == before {
			return taken
		}
	}
}

func (r *replay) identity(identity models.Hash, blocked bool) error {
	change, action := r.store.UnblockIdentity, "user unblock"
	if blocked {
		change, action = r.store.BlockIdentity, "user block"
	}
	changed, err := change(r, identity)
	if changed {
		r.again(action, "identity", fmt.Sprintf("%x", identity))
	}
	return err
}

// user removes, blocks or unblocks a user. Of a user whom the backup does not have yet it blocks the identity, which would become a new
// user.
func (r *replay) user(id models.ID, user *auditedUser) error {
	who := models.Who{ID: id}
	found, err := r.store.FindUser(r, who)
	switch {
	case errors.Is(err, models.ErrNoUser):
		if user.removed || user.identity == nil || user.blocked == nil {
			return nil
		}
		return r.identity(*user.identity, *user.blocked)
	case err != nil:
		return err
	case user.removed:
		removed, err := r.store.RemoveUser(r, who, models.UserRemoval{Events: user.events, Progress: func(models.RemovedEvents) {}})
		if err == nil && user.events {
			r.again("user remove", "user", id, "events", removed.Created.Events)
		} else if err == nil {
			r.again("user remove", "user", id)
		}
		return err
	case user.blocked == nil:
		return nil
	}
	change, action := r.store.UnblockUser, "user unblock"
	if *user.blocked {
		change, action = r.store.BlockUser, "user block"
	}
	_, changed, err := change(r, who)
	if changed {
		r.again(action, "user", id, "username", found.Username)
	}
	return err
}

// rename returns models.ErrUserExists or models.ErrUserAlike if the name is not free.
func (r *replay) rename(id models.ID, to string) error {
	who := models.Who{ID: id}
	found, err := r.store.FindUser(r, who)
	if errors.Is(err, models.ErrNoUser) || err == nil && found.Username == to {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := r.store.RenameUser(r, who, to); err != nil {
		return err
	}
	r.again("user rename", "user", id, "username", found.Username, "to", to)
	return nil
}
