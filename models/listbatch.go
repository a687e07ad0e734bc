package models

const (
	// Of most worlds the first batch is the whole list.
	firstRows = 128
	// A query for events asks for one username more of each.
	largeRSVPs = 256
	firstRSVPs = 4096
)

// batchLimits are how much is read at once.
type batchLimits struct {
	maxRows, maxRSVPs int
	large             int // an event of more RSVPs is large: they are read in batches, too; at most largeRSVPs
	// A batch has no more bytes, unless it is one event: at most 130 KB, and 30 KB in a small batch.
	maxBytes int
}

var (
	usualBatches = batchLimits{maxRows: 512, maxRSVPs: 16384, large: largeRSVPs, maxBytes: 384 << 10}
	smallBatches = batchLimits{maxRows: 32, maxRSVPs: 256, large: 16, maxBytes: 8 << 10}
)

// resize returns how many rows to ask for, at most most, when the last batch brought n of them in so many bytes.
func (l batchLimits) resize(asked, n, bytes, most int) int {
	return min(2*asked, max(1, n*l.maxBytes/max(1, bytes)), most)
}
