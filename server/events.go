package server

import (
	"context"
	"net/http"
	"time"

	"worldevents/gen"
	"worldevents/models"
	"worldevents/server/internal/accept"
	"worldevents/server/internal/eventlist"
	"worldevents/server/internal/livelist"
)

// CreateEvent stores an event and its creator's RSVP.
func (s *Server) CreateEvent(ctx context.Context, r gen.CreateEventRequestObject) (gen.CreateEventResponseObject, error) {
	req := requestFrom(ctx)
	req.WorldID = r.ID
	event := models.Event{
		WorldID:     r.ID,
		Name:        r.Body.Name,
		Description: r.Body.Description,
		ScheduledAt: r.Body.ScheduledAt.Time().Truncate(time.Millisecond),
	}
	var headers gen.CreateEvent200ResponseHeaders
	if key := r.Params.IdempotencyKey; key != nil {
		event.SetKey(req.caller.UserID, *key)
		headers.IdempotencyKey = &accepted
	}
	id, err := s.store.CreateEvent(ctx, req.caller, event)
	if err != nil {
		return nil, err
	}
	req.EventID = id.String()
	headers.EventID = req.EventID
	return gen.CreateEvent200JSONResponse{Body: success, Headers: headers}, nil
}

// accepted announces support of Idempotency-Key: without it a repeat might create another event.
var accepted = "accepted"

// ListEvents responds with the events of a world, or one page of them.
func (s *Server) ListEvents(ctx context.Context, r gen.ListEventsRequestObject) (gen.ListEventsResponseObject, error) {
	req := requestFrom(ctx)
	req.WorldID = r.ID
	r.Params.IfNoneMatch = nil // a watch would keep up to 16 KB; it has the tags
	query := eventlist.Query{World: r.ID, Params: r.Params, Raw: req.HTTP.URL.RawQuery}
	caller := eventlist.Caller{
		Caller: req.caller, Tags: eventlist.EntityTags(req.HTTP.Header["If-None-Match"]), Gzip: accept.Gzip(req.HTTP.Header["Accept-Encoding"]),
	}
	if r.Params.Wait != nil {
		wait := min(time.Duration(*r.Params.Wait)*time.Second, req.expires.Sub(s.now()))
		list, err := s.live.Watch(ctx, query, caller, time.Now().Add(wait))
		if err != nil {
			return nil, err
		}
		if s.worlds != nil {
			list.MayGo = func() error { return s.enter(req, r.ID, "list") }
			s.worlds.Renew(req, req.caller, r.ID, "list")
		}
		req.Forget()
		return watchResponse{list, req}, nil
	}
	list, err := s.lists.Get(ctx, query, caller)
	if err != nil {
		return nil, err
	}
	return listResponse{list}, nil
}

type listResponse struct{ *eventlist.Response }

// VisitListEventsResponse implements gen.ListEventsResponseObject.
func (r listResponse) VisitListEventsResponse(w http.ResponseWriter) error { return r.Write(w, false) }

// watchResponse may watch the list first.
type watchResponse struct {
	*livelist.Watch
	req *request
}

// VisitListEventsResponse implements gen.ListEventsResponseObject.
func (r watchResponse) VisitListEventsResponse(w http.ResponseWriter) error {
	err := r.Write(w)
	r.req.NewsWait = r.Watch.NewsWait
	r.req.QueueWait += r.Watch.QueueWait
	return err
}

// JoinEvent adds the user's RSVP. Where the owner of worlds was asked, the event must be of the world asked about.
func (s *Server) JoinEvent(ctx context.Context, r gen.JoinEventRequestObject) (gen.JoinEventResponseObject, error) {
	req := requestFrom(ctx)
	if err := s.store.JoinEvent(ctx, req.caller, req.event(r.ID), req.asked); err != nil {
		return nil, err
	}
	return gen.JoinEvent200JSONResponse{Body: success}, nil
}

// LeaveEvent removes the user's RSVP.
func (s *Server) LeaveEvent(ctx context.Context, r gen.LeaveEventRequestObject) (gen.LeaveEventResponseObject, error) {
	req := requestFrom(ctx)
	if _, err := s.store.LeaveEvent(ctx, req.caller, req.event(r.ID)); err != nil {
		return nil, err
	}
	return gen.LeaveEvent200JSONResponse{Body: success}, nil
}

// event parses the id in a path. The zero ID, for an invalid text, belongs to no event.
func (c *request) event(text string) models.ID {
	id, err := models.ParseID(text)
	if err == nil {
		c.EventID = text
	}
	return id
}

var success = gen.Success{Success: true}
