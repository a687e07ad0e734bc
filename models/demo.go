package models

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// Demo fills a database without events with a few users and the world plaza. Its first event has the id of the contract's examples.
func (s *Store) Demo(ctx context.Context) (done bool, err error) {
	var filled bool
	err = s.read(ctx, func(tx *gorm.DB) error {
		return scan(tx.Raw("SELECT EXISTS (SELECT 1 FROM events)"), &filled)
	})
	if err != nil || filled {
		return false, err
	}
	users := make(map[string]ID)
	for _, name := range []string{"alice", "bob", "carol"} {
		user, err := s.FindUser(ctx, Who{Username: name})
		if errors.Is(err, ErrNoUser) {
			user, err = s.AddUser(ctx, name)
		}
		if err != nil {
			return false, fmt.Errorf("demo: %w", err)
		}
		users[name] = user.ID
	}
	evening := s.options.Now().UTC().Truncate(24 * time.Hour).Add(19 * time.Hour)
	for i, event := range []struct {
		name, description, creator string
		days                       int
		joining                    []string
	}{
		{"Rooftop concert", "Doors open half an hour earlier.", "alice", 7, []string{"bob", "carol"}},
		{"Chess night", "Bring a board if you have one.\nBeginners welcome.", "bob", 9, []string{"alice"}},
		{"Garden planning", "", "carol", 14, nil},
	} {
		id := ID{0x01, 0x98, 6: 0x70, 8: 0x80, 15: byte(i + 1)} // 01980000-0000-7000-8000-00000000000N
		_, err := s.CreateEvent(ctx, Caller{UserID: users[event.creator]}, Event{
			ID: id, WorldID: "plaza", Name: event.name, Description: event.description,
			ScheduledAt: evening.AddDate(0, 0, event.days),
		})
		for _, name := range event.joining {
			if err == nil {
				err = s.JoinEvent(ctx, Caller{UserID: users[name]}, id, nil)
			}
		}
		if err != nil {
			return false, fmt.Errorf("demo: %w", err)
		}
	}
	return true, nil
}
