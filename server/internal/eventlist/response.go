package eventlist

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
)

// Response is a 200, or a 304 if the client has the list already.
type Response struct {
	*sharedRead
	ctx        context.Context
	lists      *Lists
	caller     Caller
	endReading func()
}

// IsUnchanged reports whether the client has the list already.
func (p *Response) IsUnchanged() bool { return p.caller.has(p.held.etag) }

// Discard replaces Write for an unchanged response, and returns the rest of it.
func (p *Response) Discard() Unchanged {
	p.endReading()
	return Unchanged{p.held.etag, p.held.link}
}

// Unchanged is a 304 without the list.
type Unchanged struct{ etag, link string }

// Write writes the 304. Early means that the client could not watch the list, and should ask again later.
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

// Write writes the response; early is for a 304. It returns models.ErrBusy before the response has begun. After ErrClientGone the response
// must be aborted, so that it does not look complete.
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
	free, ok := p.held.hold(p.lists.held, p.caller.UserID)
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
	if _, err := w.Write(body); err != nil {
		return fmt.Errorf("%w: %w", ErrClientGone, err)
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
	// varyList is for every list: a small one that is not compressed may grow.
	varyList   = []string{"Cookie, Origin, Accept-Encoding"}
	jsonType   = []string{"application/json"}
	gzipCoding = []string{"gzip"}
	retryAfter = []string{"1"}
)
