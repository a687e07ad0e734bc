// Command ogen watches a list with ogen's client.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ogen-go/ogen/ogenerrors"

	"worldevents/tests/clients/go/ogen/api"
	"worldevents/tests/clients/go/watch"
)

func main() {
	watch.Main(func(base string, user *watch.User) (watch.Client, error) {
		c, err := api.NewClient(base, cookies{user}, api.WithClient(user))
		return client{c}, err
	})
}

// cookies hands the session's cookie to ogen, which insists on sending it by itself. The refresh token is the jar's to send.
type cookies struct{ *watch.User }

func (c cookies) SessionCookie(context.Context, api.OperationName) (api.SessionCookie, error) {
	return api.SessionCookie{APIKey: c.Token()}, nil
}

func (cookies) RefreshCookie(context.Context, api.OperationName) (api.RefreshCookie, error) {
	return api.RefreshCookie{}, ogenerrors.ErrSkipClientSecurity
}

type client struct{ *api.Client }

func (c client) List(ctx context.Context, world, etag string, wait int32) (watch.List, error) {
	params := api.ListEventsParams{ID: world, Wait: api.NewOptInt32(wait)}
	if etag != "" {
		params.IfNoneMatch = api.NewOptString(etag)
	}
	res, err := c.ListEvents(ctx, params)
	switch res := res.(type) {
	case *api.EventListHeaders:
		return watch.List{Status: 200, ETag: res.ETag, Events: len(res.Response.Events)}, nil
	case *api.ListEventsNotModified:
		return watch.List{Status: 304, ETag: res.ETag}, nil
	}
	return watch.List{}, fmt.Errorf("list: %T, %w", res, err)
}

func (c client) Create(ctx context.Context, world string) error {
	event := &api.NewEvent{Name: "Rooftop concert", ScheduledAt: time.Unix(0, 0)}
	res, err := c.CreateEvent(ctx, event, api.CreateEventParams{ID: world})
	if _, ok := res.(*api.CreateEventOKHeaders); !ok {
		return fmt.Errorf("create: %T, %w", res, err)
	}
	return nil
}
