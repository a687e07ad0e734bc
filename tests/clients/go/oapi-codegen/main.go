// Command oapi-codegen watches a list with oapi-codegen's client.
package main

import (
	"context"
	"fmt"
	"time"

	"worldevents/tests/clients/go/oapi-codegen/api"
	"worldevents/tests/clients/go/watch"
)

func main() {
	watch.Main(func(base string, user *watch.User) (watch.Client, error) {
		c, err := api.NewClientWithResponses(base, api.WithHTTPClient(user))
		return client{c}, err
	})
}

type client struct{ *api.ClientWithResponses }

func (c client) List(ctx context.Context, world, etag string, wait int32) (watch.List, error) {
	params := &api.ListEventsParams{Wait: &wait}
	if etag != "" {
		params.IfNoneMatch = &etag
	}
	res, err := c.ListEventsWithResponse(ctx, world, params)
	if err != nil {
		return watch.List{}, err
	}
	list := watch.List{Status: res.StatusCode(), ETag: res.HTTPResponse.Header.Get("ETag")}
	if res.JSON200 != nil {
		list.Events = len(res.JSON200.Events)
	}
	return list, nil
}

func (c client) Create(ctx context.Context, world string) error {
	res, err := c.CreateEventWithResponse(ctx, world, nil, api.NewEvent{Name: "Rooftop concert", ScheduledAt: time.Unix(0, 0)})
	if err == nil && res.JSON200 == nil {
		err = fmt.Errorf("create: %s", res.Status())
	}
	return err
}
