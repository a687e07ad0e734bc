package models_test

import (
	"encoding/hex"
	"testing"
	"time"

	"worldevents/models"
)

// What a key gives stays the same for all versions of the program, also for characters that only a newer Unicode knows: otherwise a
// request that is repeated across an update would create a second event, or be refused.
func TestSetKey(t *testing.T) {
	user, err := models.ParseID("01980000-0000-7000-8000-000000000001")
	if err != nil {
		t.Fatal(err)
	}
	e := models.Event{WorldID: "plaza", Name: "Late \U0001FAE9", Description: "\"a\"\n\u00e9", ScheduledAt: time.UnixMilli(1893553445000)}
	e.SetKey(user, "key")
	const id, hash = "124cc030-b19e-8323-ad4d-d0767bc14436", "14e6f3da967878f4585209e45cd080cd09d6a46b0040a5c4192a2fdd45a78d48"
	if got := hex.EncodeToString(e.RequestHash[:]); e.ID.String() != id || got != hash {
		t.Errorf("%s %s, want %s %s", e.ID, got, id, hash)
	}
}
