package models_test

import (
	"encoding/hex"
	"testing"
	"time"

	"worldevents/models"
	"worldevents/tests/servicetest"
)

// What a key gives stays the same for all versions of the program, also for characters that only a newer Unicode knows: otherwise a
// request that is repeated across an update would create a second event, or be refused.
func TestSetKey(t *testing.T) {
	user := id(t, "01980000-0000-7000-8000-000000000001")
	e := models.Event{WorldID: "plaza", Name: "Late \U0001FAE9", Description: "\"a\"\n\u00e9", ScheduledAt: time.UnixMilli(1893553445000)}
	e.SetKey(user, "key")
	servicetest.Is(t, e.ID.String(), "124cc030-b19e-8323-ad4d-d0767bc14436", "the id")
	servicetest.Is(t, hex.EncodeToString(e.RequestHash[:]), "14e6f3da967878f4585209e45cd080cd09d6a46b0040a5c4192a2fdd45a78d48", "the hash")
}
