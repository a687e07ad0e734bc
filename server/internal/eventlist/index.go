package eventlist

import (
	"slices"

	"worldevents/models"
)

const (
	// maxIndexed is how many events all lists that are waited for may have together.
	maxIndexed = 1 << 20
	// ringSize is how many hints are remembered for readings that are running. What is older counts as a hit.
	ringSize = 1 << 12
)

// hintIndex finds the lists that are waited for by the hints of their worlds and events, and remembers the latest hints.
type hintIndex struct {
	lists  map[models.Hint][]*watchedList
	byUser map[models.ID]int // events of lists, by the user who came first
	events int               // of these
	ring   [ringSize]models.Hint
	noted  uint64 // hints
}

func newHintIndex() hintIndex {
	return hintIndex{lists: make(map[models.Hint][]*watchedList), byUser: make(map[models.ID]int)}
}

// hasRoom reports whether a user's lists may have so many events more.
func (x *hintIndex) hasRoom(user models.ID, events int) bool {
	return x.events+events <= maxIndexed && x.byUser[user]+events <= maxIndexed/shares
}

// add has w found by its hints.
func (x *hintIndex) add(w *watchedList) {
	for _, hint := range w.hints {
		x.lists[hint] = append(x.lists[hint], w)
	}
	x.events += len(w.hints)
	x.byUser[w.owner] += len(w.hints)
}

// remove ends add. It must be called before w has other hints.
func (x *hintIndex) remove(w *watchedList) {
	for _, hint := range w.hints {
		all := x.lists[hint]
		i := slices.Index(all, w)
		if all = slices.Delete(all, i, i+1); len(all) == 0 {
			delete(x.lists, hint)
		} else {
			x.lists[hint] = all
		}
	}
	x.events -= len(w.hints)
	if x.byUser[w.owner] -= len(w.hints); x.byUser[w.owner] == 0 {
		delete(x.byUser, w.owner)
	}
	w.hints = nil
}

// note remembers a hint and returns the lists that it concerns.
func (x *hintIndex) note(hint models.Hint) []*watchedList {
	x.ring[x.noted%ringSize] = hint
	x.noted++
	return x.lists[hint]
}

// hintedSince reports whether a hint of w may have been noted after that many.
func (x *hintIndex) hintedSince(w *watchedList, since uint64) bool {
	if x.noted > since+ringSize {
		return true
	}
	for ; since < x.noted; since++ {
		if slices.Contains(x.lists[x.ring[since%ringSize]], w) {
			return true
		}
	}
	return false
}
