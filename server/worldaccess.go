package server

import (
	"errors"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"worldevents/gen"
	"worldevents/models"
	"worldevents/server/internal/worlds"
)

// CheckWorlds asks an owner for a user and a world that do not exist, and reports whether the user is let in.
func CheckWorlds(at url.URL, token string) (allowed bool, err error) { return worlds.Check(at, token) }

// SetWorldToken replaces Options.WorldToken, where there is an owner to ask.
func (s *Server) SetWorldToken(token string) { s.worlds.SetToken(token) }

// askOwner asks the owner of the worlds, if there is one, before the operations on a world.
func (s *Server) askOwner(next gen.StrictHandlerFunc, _ string) gen.StrictHandlerFunc {
	if s.worlds == nil {
		return next
	}
	return func(c echo.Context, operation any) (done any, err error) {
		req := requestFrom(c.Request().Context())
		switch operation := operation.(type) {
		case gen.ListEventsRequestObject:
			err = s.enter(req, operation.ID, "list")
		case gen.CreateEventRequestObject:
			err = s.enter(req, operation.ID, "create")
		case gen.JoinEventRequestObject:
			return s.joinWhereAllowed(req, req.event(operation.ID), func() (any, error) { return next(c, operation) })
		}
		if err != nil {
			return nil, err
		}
		return next(c, operation)
	}
}

// enter asks for the caller. Its time does not count as that of the request's store calls.
func (s *Server) enter(req *request, world, action string) error {
	req.WorldID = world
	begin := time.Now()
	defer func() { req.storeDeadline = req.storeDeadline.Add(time.Since(begin)) }()
	return s.worlds.Allow(req, req.caller, world, action)
}

// joinWhereAllowed joins an event of the world that was asked about. An event that an operator has moved meanwhile is asked about again,
// once. About an event that does not exist nobody is asked.
func (s *Server) joinWhereAllowed(req *request, event models.ID, join func() (any, error)) (joined any, err error) {
	for range 2 {
		world, err := s.store.WorldOf(req, event)
		if req.asked = &world; err == nil && world != "" {
			err = s.enter(req, world, "join")
		}
		if err != nil {
			return nil, err
		}
		if joined, err = join(); world == "" || !errors.Is(err, models.ErrNoEvent) {
			return joined, err
		}
	}
	return nil, models.ErrNoEvent
}
