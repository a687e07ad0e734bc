package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"worldevents/gen"
	"worldevents/models"
	"worldevents/server"
)

type (
	eventListCommand struct {
		World string `required:"" help:"The world."`
	}
	eventShowCommand struct {
		ID string `arg:"" help:"The event's id."`
	}
	eventEditCommand struct {
		ID          string  `arg:"" help:"The event's id."`
		Name        *string `help:"A new name."`
		Description *string `help:"A new description, which may be empty."`
		ScheduledAt *string `help:"A new time, as 2030-01-02T03:04:05+01:00." placeholder:"TIME"`
	}
	eventRemoveCommand struct {
		ID string `arg:"" help:"The event's id."`
	}
	eventPruneCommand struct {
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

// Run lists the events of a world.
func (l eventListCommand) Run() error {
	if l.World == "" {
		return errNoWorld
	}
	return operate(false, func(o *operation) error {
		return printArray(func(print func(any) error) error {
			return o.store.EachEvent(o, models.EventFilter{World: l.World}, func(e models.EventDetails) error { return print(newEventLine(e)) })
		})
	})
}

// rsvpLine is what commands print of an RSVP.
type rsvpLine struct {
	Username string    `json:"username"`
	Joined   time.Time `json:"joined"`
}

// Run prints an event.
func (s eventShowCommand) Run() error {
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
func (e eventEditCommand) Run() error {
	id, err := parseEventID(e.ID)
	if err != nil {
		return err
	}
	edit, changed, err := e.edit()
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
func (e eventEditCommand) edit() (edit models.EventEdit, changed []string, err error) {
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
	if err := server.CheckEvent(openapi, members); err != nil {
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

// Run removes an event.
func (r eventRemoveCommand) Run() error {
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

// Run prunes events.
func (p eventPruneCommand) Run() error {
	before, err := gen.ParseDateTime(p.Before)
	if err != nil {
		return fmt.Errorf("--before: %w", err)
	}
	prune := models.EventRemoval{EventFilter: models.EventFilter{Before: before.Time()}, DryRun: p.DryRun}
	if p.World != nil {
		if prune.World = *p.World; prune.World == "" {
			return errNoWorld
		}
	}
	return operate(false, func(o *operation) error {
		progress := newProgress()
		prune.Progress = func(r models.RemovedEvents) { progress.tell(fmt.Sprintf("%d events with %d RSVPs", r.Events, r.RSVPs)) }
		removed, err := o.store.RemoveEvents(o, prune)
		progress.end()
		if removed.Events > 0 && !p.DryRun {
			o.audit("event prune", "before", before, "world", prune.World, "events", removed.Events, "rsvps", removed.RSVPs)
		}
		if errors.Is(err, context.Canceled) {
			return fmt.Errorf("interrupted after %d events with %d RSVPs: run it again to go on", removed.Events, removed.RSVPs)
		}
		if err != nil {
			return err
		}
		return printJSON(struct {
			Events int64 `json:"events"`
			RSVPs  int64 `json:"rsvps"`
			DryRun bool  `json:"dryRun"`
		}{removed.Events, removed.RSVPs, p.DryRun})
	})
}
