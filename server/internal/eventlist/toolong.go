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

// ErrTooLong is the cause of a TooLongError: the list has more than 32 MiB of JSON.
var ErrTooLong = errors.New("the list would have more than 32 MiB")

// TooLongError is returned by Get.
type TooLongError struct {
	// Link leads to the page after the first event, if that one alone is too long; else "".
	Link string
}

func (e *TooLongError) Error() string { return ErrTooLong.Error() }
func (e *TooLongError) Unwrap() error { return ErrTooLong }

// longLists counts and logs lists that are too long, as creators of events can make them.
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

// found counts a list, and logs one a minute.
func (l *longLists) found(world string) {
	l.total.Inc()
	l.warn.Do(func() { go l.warnOf(world) })
}

// warnOf logs the world of the list and its main creator.
func (l *longLists) warnOf(world string) {
	size, err := l.store.WorldSize(context.Background(), world)
	if err != nil {
		l.log.Warn("list too long", "world", world, "error", err.Error())
		return
	}
	l.log.Warn("list too long", "world", world, "bytes", size.Bytes, "creator", size.Creator, "creator_bytes", size.CreatorBytes)
}
