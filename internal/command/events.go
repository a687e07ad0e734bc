package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"worldevents/gen"
	"worldevents/internal/setup"
	"worldevents/models"
	"worldevents/server"
)

type (
	// WorldList prints the worlds that have events.
	WorldList struct{}
	// EventList prints events of a world, or of a creator.
	EventList struct{ creation }
	// EventShow prints an event with its RSVPs.
	EventShow struct {
		ID string `arg:"" help:"The event's id."`
	}
	// EventEdit changes members of an event, by the contract's rules.
	EventEdit struct {
		ID          string  `arg:"" help:"The event's id."`
		Name        *string `help:"A new name."`
		Description *string `help:"A new description, which may be empty."`
		ScheduledAt *string `help:"A new time, as 2030-01-02T03:04:05+01:00." placeholder:"TIME"`
	}
	// EventRemove removes an event, or those of a creator.
	EventRemove struct {
		ID string `arg:"" optional:"" help:"The event's id."`
		creation
		DryRun bool `help:"Only count what a user has created."`
	}
	// EventPrune removes the events that were scheduled before a time.
	EventPrune struct {
		Before string  `required:"" help:"Events that were scheduled before this, as 2020-01-01T00:00:00Z." placeholder:"TIME"`
		World  *string `help:"Only those of this world."`
		DryRun bool    `help:"Only count them."`
	}
)

// errNoWorld refuses an empty name, which no world has.
var errNoWorld = errors.New("--world: must not be empty")

func parseEventID(text string) (models.ID, error) {
	id, err := models.ParseID(text)
	if err != nil {
		return id, fmt.Errorf("%q: %w", text, err)
	}
	return id, nil
}

// eventLine is what commands print of an event.
type eventLine struct {
	ID          models.ID    `json:"id"`
	World       string       `json:"world"`
	Name        string       `json:"name"`
	Description string       `json:"description"`
	ScheduledAt gen.DateTime `json:"scheduledAt"`
	Created     time.Time    `json:"created"`
	Creator     *string      `json:"creator"` // nil once the creator's account is gone
	RSVPs       int64        `json:"rsvps"`
}

func newEventLine(e models.EventDetails) eventLine {
	return eventLine{e.ID, e.WorldID, e.Name, e.Description, gen.DateTime(e.ScheduledAt), e.CreatedAt.UTC(), e.Creator, e.RSVPs}
}

// creation selects events by who has made them, where and when.
type creation struct {
	Creator string  `help:"Those that this user has created." placeholder:"NAME"`
	UserID  string  `name:"user-id" help:"Instead of --creator: the user's id, as logs have it." placeholder:"ID"`
	World   *string `help:"Only those of this world."`
	Since   *string `help:"Only those that were created at this time or later, as 2030-01-02T03:04:05Z." placeholder:"TIME"`
}

// filter returns the filter without a creator.
func (c creation) filter() (f models.EventFilter, err error) {
	if c.World != nil {
		if f.World = *c.World; f.World == "" {
			return f, errNoWorld
		}
	}
	if c.Since != nil {
		since, err := gen.ParseDateTime(*c.Since)
		if err != nil {
			return f, fmt.Errorf("--since: %w", err)
		}
		f.Since = since.Time()
	}
	return f, nil
}

// creator is the user, of whom one flag was given.
func (c creation) creator(o *operation) (models.Identity, error) {
	who, err := whom{Name: c.Creator, UserID: c.UserID}.who()
	if err != nil {
		return models.Identity{}, err
	}
	return o.store.FindUser(o, who)
}

// Run lists the events of a world, or of a user.
func (l EventList) Run() error {
	filter, err := l.filter()
	if err != nil {
		return err
	}
	byCreator := given(l.Creator != "") + given(l.UserID != "")
	if byCreator > 1 || byCreator == 0 && l.World == nil {
		return errors.New("event list needs one of: --world, --creator, --user-id")
	}
	return operate(false, func(o *operation) error {
		if byCreator == 1 {
			creator, err := l.creator(o)
			if err != nil {
				return err
			}
			filter.Creator = creator.ID
		}
		return printArray(func(print func(any) error) error {
			return o.store.EachEvent(o, filter, func(e models.EventDetails) error { return print(newEventLine(e)) })
		})
	})
}

// Run lists the worlds that have events.
func (WorldList) Run() error {
	return operate(false, func(o *operation) error {
		return printArray(func(print func(any) error) error {
			return o.store.EachWorld(o, func(w models.World) error {
				return print(struct {
					World  string    `json:"world"`
					Events int64     `json:"events"`
					Newest time.Time `json:"newest"` // created
				}{w.WorldID, w.Events, w.Newest.UTC()})
			})
		})
	})
}

// rsvpLine is what commands print of an RSVP.
type rsvpLine struct {
	Username string    `json:"username"`
	Joined   time.Time `json:"joined"`
}

// Run prints an event.
func (s EventShow) Run() error {
	id, err := parseEventID(s.ID)
	if err != nil {
		return err
	}
	return operate(false, func(o *operation) error {
		event, rsvps, err := o.store.FindEvent(o, id)
		if err != nil {
			return err
		}
		shown := struct {
			eventLine
			RSVPs []rsvpLine `json:"rsvps"` // instead of their number
		}{newEventLine(event), []rsvpLine{}}
		for _, r := range rsvps {
			shown.RSVPs = append(shown.RSVPs, rsvpLine{r.Username, r.CreatedAt.UTC()})
		}
		return printJSON(shown)
	})
}

// Run changes an event.
func (e EventEdit) Run(contract setup.Contract) error {
	id, err := parseEventID(e.ID)
	if err != nil {
		return err
	}
	edit, changed, err := e.edit(contract)
	if err != nil {
		return err
	}
	return operate(false, func(o *operation) error {
		event, err := o.store.EditEvent(o, id, edit)
		if err != nil {
			return err
		}
		o.audit("event edit", "event", id, "world", event.WorldID, "changed", changed)
		return printJSON(newEventLine(event))
	})
}

// edit holds the flags against the contract. changed are the members that they name.
func (e EventEdit) edit(contract setup.Contract) (edit models.EventEdit, changed []string, err error) {
	members := make(map[string]string)
	for _, flag := range []struct {
		member string
		text   *string
	}{{"name", e.Name}, {"description", e.Description}, {"scheduledAt", e.ScheduledAt}} {
		if flag.text != nil {
			members[flag.member] = *flag.text
			changed = append(changed, flag.member)
		}
	}
	if len(changed) == 0 {
		return edit, nil, errors.New("event edit needs one or more of: --name, --description, --scheduled-at")
	}
	if err := server.CheckEvent(contract, members); err != nil {
		return edit, nil, fmt.Errorf("event edit: %w", err)
	}
	edit.Name, edit.Description = e.Name, e.Description
	if e.ScheduledAt != nil {
		at, err := gen.ParseDateTime(*e.ScheduledAt)
		if err != nil {
			return edit, nil, fmt.Errorf("--scheduled-at: %w", err)
		}
		edit.ScheduledAt = new(at.Time().Truncate(time.Millisecond))
	}
	return edit, changed, nil
}

// Run removes an event, or those that a user has created.
func (r EventRemove) Run() error {
	switch given(r.ID != "") + given(r.Creator != "") + given(r.UserID != "") {
	case 0, 2, 3:
		return errors.New("event remove needs one of: an event's id, --creator, --user-id")
	}
	if r.ID == "" {
		return r.removeCreated()
	}
	if r.World != nil || r.Since != nil || r.DryRun {
		return errors.New("event remove: --world, --since and --dry-run go with --creator or --user-id")
	}
	id, err := parseEventID(r.ID)
	if err != nil {
		return err
	}
	return operate(false, func(o *operation) error {
		removed, err := o.store.RemoveEvent(o, id)
		if err != nil {
			return err
		}
		o.audit("event remove", "event", id, "rsvps", removed.RSVPs)
		return printJSON(struct {
			ID    models.ID `json:"id"`
			RSVPs int64     `json:"rsvps"`
		}{id, removed.RSVPs})
	})
}

func (r EventRemove) removeCreated() error {
	filter, err := r.filter()
	if err != nil {
		return err
	}
	return operate(false, func(o *operation) error {
		creator, err := r.creator(o)
		if err != nil {
			return err
		}
		filter.Creator = creator.ID
		about := []any{"user", creator.ID, "username", creator.Username, "world", filter.World}
		if r.Since != nil {
			about = append(about, "since", exact(filter.Since))
		}
		return o.removeEvents(models.EventRemoval{EventFilter: filter, DryRun: r.DryRun}, "event remove", about...)
	})
}

// Run prunes events.
func (p EventPrune) Run() error {
	before, err := gen.ParseDateTime(p.Before)
	if err != nil {
		return fmt.Errorf("--before: %w", err)
	}
	filter, err := creation{World: p.World}.filter()
	if err != nil {
		return err
	}
	filter.Before = before.Time()
	return operate(false, func(o *operation) error {
		return o.removeEvents(models.EventRemoval{EventFilter: filter, DryRun: p.DryRun}, "event prune", "before", before, "world", filter.World)
	})
}

// exact writes a time for a log that is replayed: in text a time of its own has no more than milliseconds.
func exact(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// removeEvents removes events, tells how far it is, and leaves an audit line of action if any are gone.
func (o *operation) removeEvents(removal models.EventRemoval, action string, about ...any) error {
	progress := newProgress()
	removal.Progress = progress.tellEvents
	removed, err := o.store.RemoveEvents(o, removal)
	progress.end()
	if removed.Events > 0 && !removal.DryRun {
		o.audit(action, append(about, "events", removed.Events, "rsvps", removed.RSVPs)...)
	}
	if errors.Is(err, context.Canceled) {
		return errInterrupted(removed)
	}
	if err != nil {
		return err
	}
	return printJSON(struct {
		Events int64 `json:"events"`
		RSVPs  int64 `json:"rsvps"`
		DryRun bool  `json:"dryRun"`
	}{removed.Events, removed.RSVPs, removal.DryRun})
}

func (p *progress) tellEvents(r models.RemovedEvents) {
	p.tell(fmt.Sprintf("%d events with %d RSVPs", r.Events, r.RSVPs))
}

func errInterrupted(after models.RemovedEvents) error {
	return fmt.Errorf("interrupted after %d events with %d RSVPs: run it again to go on", after.Events, after.RSVPs)
}
