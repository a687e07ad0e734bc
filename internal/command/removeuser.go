package command

import (
	"context"
	"encoding/hex"
	"errors"

	"worldevents/models"
)

// UserRemove deletes a user, with sessions and RSVPs.
type UserRemove struct {
	whom
	Block  bool `help:"Keep a SHA-256 of who the user is at the identity provider, so that they cannot come back as a new user."`
	Events bool `help:"Remove the events that they have created, too, in small batches."`
	DryRun bool `help:"Only count."`
}

// Run removes a user. The audit line has the id and no name, which was to go.
func (r UserRemove) Run() error {
	return r.withUser(false, func(cmd *command, who models.Who) error {
		removal := models.UserRemoval{Block: r.Block, Events: r.Events, DryRun: r.DryRun, Progress: tellEvents()}
		removed, err := cmd.store.RemoveUser(cmd, who, removal)
		if err != nil {
			return r.failed(cmd, removed, err)
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
		// Replay reads these: the user, whether events went along, and the identity that must not come back.
		attributes := []any{"user", removed.ID}
		if r.Events {
			result.Created = new(removedEvents(removed.Created))
			attributes = append(attributes, "events", removed.Created.Events, "rsvps", removed.Created.RSVPs)
		}
		if removed.Identity != nil {
			result.Identity = hex.EncodeToString(removed.Identity[:])
			attributes = append(attributes, "identity", result.Identity)
		}
		if !r.DryRun {
			cmd.audit("user remove", attributes...)
		}
		return printJSON(result)
	})
}

type removedEvents struct {
	Events int64 `json:"events"`
	RSVPs  int64 `json:"rsvps"`
}

// failed leaves an audit line for the events that are gone although their user is still there.
func (r UserRemove) failed(cmd *command, removed models.Removed, err error) error {
	if removed.Created.Events > 0 && !r.DryRun {
		cmd.audit("event remove", "user", removed.ID, "world", "", "events", removed.Created.Events, "rsvps", removed.Created.RSVPs)
	}
	if errors.Is(err, context.Canceled) && r.Events {
		return errInterrupted(removed.Created)
	}
	return err
}
