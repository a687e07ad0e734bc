package command

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"worldevents/gen"
	"worldevents/models"
)

// EventRemove removes one event, or those that a user created.
type EventRemove struct {
	ID string `arg:"" optional:"" help:"The event's id."`
	creation
	DryRun bool `help:"Only count what a user has created."`
}

// EventPrune removes the events that were scheduled before a time.
type EventPrune struct {
	Before    string  `help:"Events that were scheduled before this, as 2020-01-01T00:00:00Z." placeholder:"TIME"`
	OlderThan string  `help:"Instead of --before: events that were scheduled so many days ago or longer, at least one, as 90d." placeholder:"AGE"`
	World     *string `help:"Only those of this world."`
	DryRun    bool    `help:"Only count them."`
}

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
	return withStore(false, func(cmd *command) error {
		removed, err := cmd.store.RemoveEvent(cmd, id)
		if err != nil {
			return err
		}
		cmd.audit("event remove", "event", id, "rsvps", removed.RSVPs)
		return printJSON(map[string]any{"id": id, "rsvps": removed.RSVPs})
	})
}

// removeCreated removes events of a user. The audit line has the user's id and the limits of time: Replay removes the same events, and
// none that the user created later.
func (r EventRemove) removeCreated() error {
	filter, err := r.filter()
	if err != nil {
		return err
	}
	return withStore(false, func(cmd *command) error {
		creator, err := r.creator(cmd)
		if err != nil {
			return err
		}
		filter.Creator = creator.ID
		about := []any{"user", creator.ID, "username", creator.Username, "world", filter.World}
		if r.Since != nil {
			about = append(about, "since", exact(filter.Since))
		}
		return cmd.removeEvents(models.EventRemoval{EventFilter: filter, DryRun: r.DryRun}, "event remove", about...)
	})
}

// Run removes old events. Replay does not repeat it: after a restore an operator prunes again.
func (p EventPrune) Run() error {
	before, err := p.before(time.Now())
	if err != nil {
		return err
	}
	filter, err := creation{World: p.World}.filter()
	if err != nil {
		return err
	}
	filter.Before = before.Time()
	return withStore(false, func(cmd *command) error {
		return cmd.removeEvents(models.EventRemoval{EventFilter: filter, DryRun: p.DryRun}, "event prune", "before", before, "world", filter.World)
	})
}

func (p EventPrune) before(now time.Time) (before gen.DateTime, err error) {
	if given(p.Before != "")+given(p.OlderThan != "") != 1 {
		return before, errors.New("event prune needs one of: --before, --older-than")
	}
	if p.Before != "" {
		if before, err = gen.ParseDateTime(p.Before); err != nil {
			err = fmt.Errorf("--before: %w", err)
		}
		return before, err
	}
	text, isDays := strings.CutSuffix(p.OlderThan, "d")
	days, err := strconv.ParseUint(text, 10, 16)
	if err != nil || !isDays || days == 0 {
		return before, fmt.Errorf("--older-than: must be 1 to %d days, such as 90d", math.MaxUint16)
	}
	return gen.DateTime(now.UTC().AddDate(0, 0, -int(days))), nil
}

// exact writes a time for Replay, to the nanosecond: the text format of the log has milliseconds alone.
func exact(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// removeEvents removes events, and prints its progress. If any are gone it leaves an audit line, even after an error or an interruption.
func (cmd *command) removeEvents(removal models.EventRemoval, action string, about ...any) error {
	removal.Progress = tellEvents()
	removed, err := cmd.store.RemoveEvents(cmd, removal)
	if removed.Events > 0 && !removal.DryRun {
		cmd.audit(action, append(about, "events", removed.Events, "rsvps", removed.RSVPs)...)
	}
	if errors.Is(err, context.Canceled) {
		return errInterrupted(removed)
	}
	if err != nil {
		return err
	}
	return printJSON(struct {
		removedEvents
		DryRun bool `json:"dryRun"`
	}{removedEvents(removed), removal.DryRun})
}

func tellEvents() func(models.RemovedEvents) {
	tell := progress()
	return func(r models.RemovedEvents) { tell(fmt.Sprintf("%d events with %d RSVPs", r.Events, r.RSVPs)) }
}

func errInterrupted(after models.RemovedEvents) error {
	return fmt.Errorf("interrupted after %d events with %d RSVPs: run it again to go on", after.Events, after.RSVPs)
}
