package models

const (
	// Of most worlds the first batch is the whole list.
	firstRows = 128
	// A query for events asks for one username more of each.
	largeRSVPs = 256
	// The first batch of a large event has no more RSVPs.
	firstRSVPs = 4096
)

// batchLimits are how much is read at once.
type batchLimits struct {
	maxRows, maxRSVPs int
	large             int // an event of more RSVPs is large: they are read in batches, too; at most largeRSVPs
	// A batch of events has no more bytes, unless it is one event: at most 130 KB, and 30 KB in a small batch.
	maxBytes int
	// A batch of RSVPs has no more bytes of usernames, unless it is one. Their JSON has 26 more for each.
	maxNames int
}

var (
	usualBatches = batchLimits{maxRows: 512, maxRSVPs: 12288, large: largeRSVPs, maxBytes: 384 << 10, maxNames: 160 << 10}
	smallBatches = batchLimits{maxRows: 32, maxRSVPs: 256, large: 16, maxBytes: 8 << 10, maxNames: 4 << 10}
)

// resize returns how many rows to ask for, at most most, when the last batch brought n of them in so many bytes and the next
// shall have about want.
func resize(asked, n, bytes, want, most int) int {
	return min(2*asked, max(1, n*want/max(1, bytes)), most)
}

// resizeRSVPs is resize for RSVPs. An eighth is left for names that are longer than the last ones.
func (l batchLimits) resizeRSVPs(asked, n, bytes int) int {
	return resize(asked, n, bytes, l.maxNames*7/8, l.maxRSVPs)
}
