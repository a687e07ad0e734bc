package eventlist

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"worldevents/models"
)

// ErrTooLong is what Get returns, as a TooLongError, for a list of more than 32 MiB of JSON.
var ErrTooLong = errors.New("the list would have more than 32 MiB")

// TooLongError is an ErrTooLong.
type TooLongError struct {
	// Link is a Link header with the page behind the first event, if that one alone is too long; else "".
	Link string
}

func (e *TooLongError) Error() string { return ErrTooLong.Error() }
func (e *TooLongError) Unwrap() error { return ErrTooLong }

// longLists tells the operator of lists that are too long: who may create in a world can make its list so.
type longLists struct {
	store *models.Store
	log   *slog.Logger
	total prometheus.Counter
	warn  rate.Sometimes
}

func newLongLists(store *models.Store, log *slog.Logger) *longLists {
	return &longLists{
		store: store, log: log, warn: rate.Sometimes{Interval: time.Minute},
		total: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "worldevents_lists_too_long_total",
			Help: "Readings of lists that would have more than 32 MiB.",
		}),
	}
}

// found counts a list of a world, and warns once a minute.
func (l *longLists) found(world string) {
	l.total.Inc()
	l.warn.Do(func() { go l.warnOf(world) })
}

// warnOf says which world has the list, and who has made most of it.
func (l *longLists) warnOf(world string) {
	size, err := l.store.WorldSize(context.Background(), world)
	if err != nil { // the line is there all the same
		l.log.Warn("list too long", "world", world, "error", err.Error())
		return
	}
	l.log.Warn("list too long", "world", world, "bytes", size.Bytes, "creator", size.Creator, "creator_bytes", size.CreatorBytes)
}
