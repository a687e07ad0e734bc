package inflight

import (
	"net/http"
	"strconv"
	"time"
)

const (
	// A body is written in pieces of pieceSize: more of them cost more. Beyond the first one it may take firstTime, and as long as it takes to read
	// what has been written at slowest; at slowestLarge if it is longer than maxSlow. Both are in bytes a second.
	pieceSize    = 256 << 10
	firstTime    = 30 * time.Second
	slowest      = 16 << 10
	slowestLarge = 128 << 10
	maxSlow      = 1 << 20
	// stallAfter is how long a write may take before the client counts as slow.
	stallAfter = 20 * time.Millisecond
)

// Writer writes a response. It gives the place back when the response begins, and gives the client its time to read. A response that is
// read too slowly ends with the connection, before the end that Content-Length or the chunks show (RFC 9112 section 8).
type Writer struct {
	http.ResponseWriter
	place   *Place
	begun   time.Time
	rate    time.Duration // bytes a second that the client must read
	written time.Duration // bytes
	waited  time.Duration
}

// NewWriter returns a Writer for the request that has the place.
func NewWriter(w http.ResponseWriter, place *Place) Writer {
	return Writer{ResponseWriter: w, place: place}
}

// Waited returns for how long a slow client made writes wait.
func (w *Writer) Waited() time.Duration { return w.waited }

// WriteHeader implements http.ResponseWriter. It must come before Write.
func (w *Writer) WriteHeader(status int) {
	w.place.GiveBack()
	w.begun, w.rate = time.Now(), slowest
	if length := w.Header()["Content-Length"]; len(length) == 1 {
		if n, _ := strconv.Atoi(length[0]); n > maxSlow {
			w.rate = slowestLarge
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *Writer) Write(b []byte) (n int, err error) {
	begin := time.Now()
	for err == nil && n < len(b) {
		piece := b[n:min(n+pieceSize, len(b))]
		if w.written+time.Duration(len(piece)) > pieceSize {
			http.NewResponseController(w.ResponseWriter).SetWriteDeadline(w.begun.Add(firstTime + w.written*time.Second/w.rate))
		}
		var m int
		m, err = w.ResponseWriter.Write(piece)
		n += m
		w.written += time.Duration(m)
	}
	if waited := time.Since(begin); waited > stallAfter {
		w.waited += waited
	}
	return n, err
}

func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
