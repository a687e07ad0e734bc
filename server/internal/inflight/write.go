package inflight

import (
	"net/http"
	"strconv"
	"time"
)

const (
	// A body is written in pieces of pieceSize: larger ones cost more. After the first one it may take firstTime, and the time to read the
	// written bytes at slowest bytes a second, or at slowestLarge if it is longer than maxSlow bytes.
	pieceSize    = 256 << 10
	firstTime    = 30 * time.Second
	slowest      = 16 << 10
	slowestLarge = 128 << 10
	maxSlow      = 1 << 20
	// stallAfter is the duration of a write from which a client counts as slow.
	stallAfter = 20 * time.Millisecond
)

// Writer writes a response. It gives the place back when the response begins. If the client reads too slowly it ends the connection, before
// the end that Content-Length or the chunks show (RFC 9112 section 8).
type Writer struct {
	http.ResponseWriter
	place   *Place
	begun   time.Time
	rate    time.Duration // the least, in bytes a second
	written time.Duration // bytes
	waited  time.Duration
}

// NewWriter returns a Writer for the request with the place.
func NewWriter(w http.ResponseWriter, place *Place) Writer {
	return Writer{ResponseWriter: w, place: place}
}

// Waited returns how long writes waited for a slow client.
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
