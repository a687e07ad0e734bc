package server

import (
	"context"
	"time"

	"worldevents/gen"
	"worldevents/models"
)

// CreateEvent stores an event and its creator's RSVP.
func (s *Server) CreateEvent(ctx context.Context, r gen.CreateEventRequestObject) (gen.CreateEventResponseObject, error) {
	id, err := s.store.Create(ctx, callOf(ctx).user.Subject, models.Event{
		WorldID:     r.ID,
		Name:        r.Body.Name,
		Description: r.Body.Description,
		ScheduledAt: r.Body.ScheduledAt.Time().Truncate(time.Millisecond),
	})
	if err != nil {
		return nil, err
	}
	return gen.CreateEvent200JSONResponse{Body: success, Headers: gen.CreateEvent200ResponseHeaders{EventID: id}}, nil
}

// JoinEvent adds the user's RSVP.
func (s *Server) JoinEvent(ctx context.Context, r gen.JoinEventRequestObject) (gen.JoinEventResponseObject, error) {
	if err := s.store.Join(ctx, callOf(ctx).user.Subject, r.ID); err != nil {
		return nil, err
	}
	return gen.JoinEvent200JSONResponse{Body: success}, nil
}

// LeaveEvent removes the user's RSVP.
func (s *Server) LeaveEvent(ctx context.Context, r gen.LeaveEventRequestObject) (gen.LeaveEventResponseObject, error) {
	if err := s.store.Leave(ctx, callOf(ctx).user.Subject, r.ID); err != nil {
		return nil, err
	}
	return gen.LeaveEvent200JSONResponse{Body: success}, nil
}

var success = gen.Success{Success: true}
