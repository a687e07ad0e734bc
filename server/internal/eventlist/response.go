package eventlist

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Response is the response 200, or 304 when the client has the list already.
type Response struct {
	*sharedRead
	ctx        context.Context
	lists      *Lists
	caller     Caller
	endReading func()
}

// IsUnchanged reports whether the client has the list already.
func (p *Response) IsUnchanged() bool {
	return p.caller.has(p.held.etag)
}

// Discard takes the place of Write for a response that is unchanged, and returns what is left of it.
func (p *Response) Discard() Unchanged {
	p.endReading()
	return Unchanged{p.held.etag, p.held.link}
}

// Unchanged is a 304 without the list.
type Unchanged struct{ etag, link string }

// Write writes the 304. Early means that the client wanted to watch the list, could not, and should ask again later.
func (u Unchanged) Write(w http.ResponseWriter, early bool) {
	h := w.Header()
	h["Cache-Control"] = mustRevalidate
	h["Vary"] = varyList
	h["Etag"] = []string{u.etag}
	setLink(h, u.link)
	if early {
		h["Retry-After"] = retryAfter
	}
	w.WriteHeader(http.StatusNotModified)
}

// Write writes the response; early is for a 304. It returns models.ErrBusy before the response has begun, and ErrClientGone, after which it
// must be aborted, so that it does not end as if it were whole.
func (p *Response) Write(w http.ResponseWriter, early bool) error {
	if p.IsUnchanged() {
		how := wayUnchangedRead
		if p.how == wayCached {
			how = wayUnchangedCached
		}
		p.lists.count(how)
		p.Discard().Write(w, early)
		return nil
	}
	asGzip := p.caller.Gzip && p.held.isCompressed()
	body := p.held.content(asGzip)
	p.endReading()
	free, ok := p.held.hold(p.lists.held.memory, p.caller.UserID)
	if !ok {
		return ErrNoRoom
	}
	defer free()
	h := w.Header()
	h["Cache-Control"] = mustRevalidate
	h["Vary"] = varyList
	setLink(h, p.held.link)
	h["Content-Type"] = jsonType
	h["Etag"] = []string{p.held.etag}
	if asGzip {
		h["Content-Encoding"] = gzipCoding
	}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	p.lists.count(p.how)
	w.WriteHeader(http.StatusOK)
	if err := write(w, body); err != nil {
		return fmt.Errorf("%w: %w", ErrClientGone, err)
	}
	return nil
}

const (
	// A body beyond maxSlow bytes must be read in pieces of pieceSize: within largeTime, and a second more for each that has been
	// written. A smaller one has the time that the connection gives it.
	maxSlow   = 1 << 20
	pieceSize = 128 << 10
	largeTime = 30 * time.Second
)

// write writes a body. A client that reads too slowly gets less than Content-Length has promised.
func write(w http.ResponseWriter, body []byte) error {
	if len(body) <= maxSlow {
		_, err := w.Write(body)
		return err
	}
	control, deadline := http.NewResponseController(w), time.Now().Add(largeTime)
	for piece := range slices.Chunk(body, pieceSize) {
		control.SetWriteDeadline(deadline)
		if _, err := w.Write(piece); err != nil {
			return err
		}
		deadline = deadline.Add(time.Second)
	}
	return nil
}

func setLink(h http.Header, link string) {
	if link != "" {
		h.Set("Link", link)
	}
}

var (
	mustRevalidate = []string{"private, no-cache"}
	// varyList is the Vary of every list. A list that is not compressed today, since it is small, may be tomorrow.
	varyList   = []string{"Cookie, Origin, Accept-Encoding"}
	jsonType   = []string{"application/json"}
	gzipCoding = []string{"gzip"}
	retryAfter = []string{"1"}
)
