package livelist

import (
	"worldevents/models"
	"worldevents/server/internal/eventlist"
	"worldevents/server/internal/ledger"
)

// Options of Lists.
type Options struct {
	// MaxWatches bounds the watching requests; more get their response at once.
	MaxWatches int
	// MaxAnswering bounds those that read their lists or write responses, besides the requests in flight, if it is less than 16.
	MaxAnswering int
}

// Lists lets requests watch lists. Its methods may be called concurrently.
type Lists struct {
	lists   *eventlist.Lists
	store   *models.Store
	hub     *hub
	watches *ledger.Ledger[models.ID]
	turns   *ledger.Ledger[models.ID] // to look at a list, and to write it
	counts  *counts
}

// New returns the lists of a store.
func New(store *models.Store, lists *eventlist.Lists, o Options) *Lists {
	return &Lists{
		lists: lists, store: store, hub: newHub(store.WorldsSince),
		watches: ledger.New[models.ID](ledger.Eighth(o.MaxWatches)),
		turns:   ledger.New[models.ID](ledger.Eighth(max(1, min(o.MaxAnswering, maxAnswering)))), counts: newCounts(),
	}
}

// Listen subscribes to changes. Call it once, before requests are served.
func (l *Lists) Listen() { l.store.Subscribe(l.hub.hear) }

// Stop ends all watches for good.
func (l *Lists) Stop() { l.hub.end() }

// Held returns gauges by their label in metrics.
func (l *Lists) Held() map[string]func() int {
	return map[string]func() int{"list_watches": l.watches.Held, "list_answers": l.turns.Held}
}
