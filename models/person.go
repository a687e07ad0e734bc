package models

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// Person is all that is kept about a user, but for hashes of tokens.
type Person struct {
	User
	// Sessions are all that are stored, over or not, without their hashes.
	Sessions []Session
	// Events are those that the user has created.
	Events []Event
	// RSVPs are in the order of joining.
	RSVPs []Joined
}

// Joined is an RSVP as its user sees it.
type Joined struct {
	EventID     ID
	WorldID     string
	Name        string
	ScheduledAt time.Time
	CreatedAt   time.Time // when the user joined
}

// FindPerson returns all that is kept about a user, at one moment. It returns ErrNoUser.
func (s *Store) FindPerson(ctx context.Context, who Who) (Person, error) {
	var person Person
	err := s.snapshot(ctx, func(tx *gorm.DB) error {
		person = Person{}
		var err error
		if person.User, err = readUser(who.in(tx)); err != nil {
			return err
		}
		err = tx.Omit("handle_hash", "token_hash", "spent").Where("user_id = ?", person.ID).
			Order("created_at, id").Find(&person.Sessions).Error
		if err != nil {
			return err
		}
		err = tx.Where("creator_id = ?", person.ID).Order("created_at, id").Find(&person.Events).Error
		if err != nil {
			return err
		}
		return tx.Raw(`
			SELECT e.id AS event_id, e.world_id, e.name, e.scheduled_at, r.created_at
			FROM rsvps r JOIN events e ON e.number = r.event_number
			WHERE r.user_number = ? AND e.world_id <> '' ORDER BY r.created_at, e.id`, person.Number).Scan(&person.RSVPs).Error
	})
	if err != nil {
		return Person{}, fmt.Errorf("find user: %w", err)
	}
	return person, nil
}

// snapshot runs fn, which only reads, on one state of the database. On SQLite that keeps others from writing meanwhile.
func (s *Store) snapshot(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return s.transaction(ctx, func(tx *gorm.DB) error {
		if s.file == nil {
			if err := tx.Exec("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY").Error; err != nil {
				return err
			}
		}
		return fn(tx)
	})
}

// batchOfUsers is how many users are read at once.
const batchOfUsers = 1000

// EachUser calls each with all users, in the order in which they were added, until it returns an error or ctx ends. It
// reads some at a time: users who are added meanwhile may be among them.
func (s *Store) EachUser(ctx context.Context, each func(User) error) error {
	for after := (ID{}); ; {
		var users []User
		err := s.read(ctx, func(tx *gorm.DB) error {
			return tx.Where("id > ?", after).Order("id").Limit(batchOfUsers).Find(&users).Error
		})
		if err != nil {
			return fmt.Errorf("list users: %w", err)
		}
		for _, user := range users {
			if err := each(user); err != nil {
				return err
			}
			after = user.ID
		}
		if len(users) < batchOfUsers {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
