package livelist

import (
	"worldevents/models"
	"worldevents/server/internal/eventlist"
	"worldevents/server/internal/ledger"
)

// Options bound the requests that watch lists.
type Options struct {
	// MaxWatches is how many do so at once; more get their response at once.
	MaxWatches int
	// MaxAnswering is how many of them look at their lists, or have their responses written, at once, if that is less than 16. They
	// are beside the requests in flight.
	MaxAnswering int
}

// Lists are those that requests may watch. Its methods may be called concurrently.
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

// Listen begins to hear of changes, of this instance and of others. It must be called once, before requests are served.
func (l *Lists) Listen() { l.store.Subscribe(l.hub.hear) }

// Stop ends all watches at once, and lets nobody begin another.
func (l *Lists) Stop() { l.hub.end() }

// Held returns how much is held of what, by its name in metrics.
func (l *Lists) Held() map[string]func() int {
	return map[string]func() int{"list_watches": l.watches.Held, "list_answers": l.turns.Held}
}
