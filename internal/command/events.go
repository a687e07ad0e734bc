package command

import (
	"errors"
	"fmt"
	"time"

	"worldevents/gen"
	"worldevents/models"
	"worldevents/server"
)

// WorldList prints the worlds that have events.
type WorldList struct{}

// EventList prints events of a world, or of a creator.
type EventList struct{ creation }

// EventShow prints an event with its RSVPs.
type EventShow struct {
	ID string `arg:"" help:"The event's id."`
}

var errNoWorld = errors.New("--world: must not be empty")

func parseEventID(text string) (models.ID, error) {
	id, err := models.ParseID(text)
	if err != nil {
		return id, fmt.Errorf("%q: %w", text, err)
	}
	return id, nil
}

// madeEvent is an event as commands print it. Members of the contract have their names there.
type madeEvent struct {
	ID          models.ID    `json:"id"`
	World       string       `json:"world"`
	Name        string       `json:"name"`
	Description string       `json:"description"`
	ScheduledAt gen.DateTime `json:"scheduledAt"`
	Created     time.Time    `json:"created"`
}

func newMadeEvent(e models.Event) madeEvent {
	return madeEvent{e.ID, e.WorldID, e.Name, e.Description, gen.DateTime(e.ScheduledAt), e.CreatedAt.UTC()}
}

// eventLine is a madeEvent with its creator and RSVPs.
type eventLine struct {
	madeEvent
	Creator *string `json:"creator"` // nil once the creator's account is gone
	RSVPs   int64   `json:"rsvps"`
}

func newEventLine(e models.EventDetails) eventLine {
	return eventLine{newMadeEvent(e.Event), e.Creator, e.RSVPs}
}

// creation selects events by who made them, where and when.
type creation struct {
	Creator string  `help:"Those that this user has created." placeholder:"NAME"`
	UserID  string  `name:"user-id" help:"Instead of --creator: the user's id, as logs have it." placeholder:"ID"`
	World   *string `help:"Only those of this world."`
	Since   *string `help:"Only those that were created at this time or later, as 2030-01-02T03:04:05Z." placeholder:"TIME"`
}

// filter returns the filter without the creator, which needs a look-up.
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

// creator looks up the user whom one of the two flags names.
func (c creation) creator(cmd *command) (models.Identity, error) {
	who, err := whom{Name: c.Creator, UserID: c.UserID}.who()
	if err != nil {
		return models.Identity{}, err
	}
	return cmd.store.FindUser(cmd, who)
}

func (l EventList) Run() error {
	filter, err := l.filter()
	if err != nil {
		return err
	}
	byCreator := given(l.Creator != "") + given(l.UserID != "")
	if byCreator > 1 || byCreator == 0 && l.World == nil {
		return errors.New("event list needs one of: --world, --creator, --user-id")
	}
	return withStore(false, func(cmd *command) error {
		if byCreator == 1 {
			creator, err := l.creator(cmd)
			if err != nil {
				return err
			}
			filter.Creator = creator.ID
		}
		return printArray(func(print func(any) error) error {
			return cmd.store.EachEvent(cmd, filter, func(e models.EventDetails) error { return print(newEventLine(e)) })
		})
	})
}

func (WorldList) Run() error {
	return withStore(false, func(cmd *command) error {
		return printArray(func(print func(any) error) error {
			return cmd.store.EachWorld(cmd, func(w models.World) error {
				return print(struct {
					World  string    `json:"world"`
					Events int64     `json:"events"`
					Newest time.Time `json:"newest"` // created
				}{w.WorldID, w.Events, w.Newest.UTC()})
			})
		})
	})
}

type rsvpLine struct {
	Username string    `json:"username"`
	Joined   time.Time `json:"joined"`
}

func (s EventShow) Run() error {
	id, err := parseEventID(s.ID)
	if err != nil {
		return err
	}
	return withStore(false, func(cmd *command) error {
		event, rsvps, err := cmd.store.FindEvent(cmd, id)
		if err != nil {
			return err
		}
		return printJSON(struct {
			eventLine
			RSVPs []rsvpLine `json:"rsvps"` // instead of their number
		}{newEventLine(event), linesOf(rsvps, func(r models.RSVP) rsvpLine { return rsvpLine{r.Username, r.CreatedAt.UTC()} })})
	})
}

// EventEdit changes members of an event. The rules of the contract for createEvent hold here, too.
type EventEdit struct {
	ID          string  `arg:"" help:"The event's id."`
	Name        *string `help:"A new name."`
	Description *string `help:"A new description, which may be empty."`
	ScheduledAt *string `help:"A new time, as 2030-01-02T03:04:05+01:00." placeholder:"TIME"`
}

// Run changes an event. The audit line names members without their texts, which may be what had to go.
func (e EventEdit) Run() error {
	id, err := parseEventID(e.ID)
	if err != nil {
		return err
	}
	edit, changed, err := e.edit()
	if err != nil {
		return err
	}
	return withStore(false, func(cmd *command) error {
		event, err := cmd.store.EditEvent(cmd, id, edit)
		if err != nil {
			return err
		}
		cmd.audit("event edit", "event", id, "world", event.WorldID, "changed", changed)
		return printJSON(newEventLine(event))
	})
}

// edit checks the flags by the contract's rules, so that no command makes an event that createEvent would refuse.
func (e EventEdit) edit() (edit models.EventEdit, changed []string, err error) {
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
	if err := server.CheckEvent(members); err != nil {
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
