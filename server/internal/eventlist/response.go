package eventlist

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"worldevents/models"
)

// Response is the response 200, or 304 when the client has the list already.
type Response struct {
	*sharedRead
	ctx    context.Context
	lists  *Lists
	key    readKey
	span   models.ListOptions
	caller Caller
	// reading means that the response counts as reading, until endRead.
	reading bool
	// news means that the client has waited for the list.
	news bool
	// early means that the client wanted to wait, and should ask again later.
	early bool
	// etagLine and lengthLine are those of the headers ETag and Content-Length.
	etagLine, lengthLine [1]string
}

// Write writes the response. It returns ErrClientGone, and for a list that is streamed the errors of reading. Unless the
// response has not begun, it must then be aborted, so that it does not end as if it were whole.
func (p *Response) Write(w http.ResponseWriter) error {
	if p.etag != "" && etagMatches(p.caller.IfNoneMatch, p.etag) {
		p.lists.count(p.unchangedWay())
		p.endRead()
		writeNotModified(w, p.etag, p.link, p.early)
		p.release()
		return nil
	}
	h := w.Header()
	h["Cache-Control"] = mustRevalidate
	h["Vary"] = varyList
	free, ok := p.prepare()
	if !ok {
		p.release()
		return p.streamAnew(w)
	}
	defer free()
	setLink(h, p.link)
	h["Content-Type"] = jsonType
	if p.etag == "" {
		p.lists.count(wayStreamed)
		w.WriteHeader(http.StatusOK)
		return p.stream(w)
	}
	defer p.release()
	p.etagLine[0] = p.etag
	h["Etag"] = p.etagLine[:]
	body := p.body()
	if p.isCompressed() {
		body = p.gzipBody(body)
		h["Content-Encoding"] = gzipCoding
	}
	p.lengthLine[0] = strconv.Itoa(len(body))
	h["Content-Length"] = p.lengthLine[:]
	p.lists.count(p.wholeWay())
	w.WriteHeader(http.StatusOK)
	if _, err := w.Write(body); err != nil {
		return fmt.Errorf("%w: %w", ErrClientGone, err)
	}
	return nil
}

// prepare makes the JSON of a list that is held, and lets the user read another list. It reports whether there is room for the response's
// memory, to be freed.
func (p *Response) prepare() (free func(), ok bool) {
	defer p.endRead()
	size := streamBytes
	if p.etag != "" {
		body := p.body()
		size = cap(body)
		if p.isCompressed() {
			size += cap(p.gzipBody(body))
		}
	}
	return p.hold(p.lists.held.memory, p.caller.UserID, size)
}

// isCompressed reports whether the response has a list that is held as gzip.
func (p *Response) isCompressed() bool {
	return len(p.body()) >= minCompressed && p.caller.Gzip
}

func (p *Response) endRead() {
	if p.reading {
		p.reading = false
		p.lists.held.reading.Release(p.caller.UserID, 1)
	}
}

// writeNotModified writes a 304. One that is early says when to ask again.
func writeNotModified(w http.ResponseWriter, etag, link string, early bool) {
	h := w.Header()
	h["Cache-Control"] = mustRevalidate
	h["Vary"] = varyList
	h["Etag"] = []string{etag}
	setLink(h, link)
	if early {
		h["Retry-After"] = retryAfter
	}
	w.WriteHeader(http.StatusNotModified)
}

func setLink(h http.Header, link string) {
	if link != "" {
		h.Set("Link", link)
	}
}

var (
	mustRevalidate = []string{"private, no-cache"}
	// varyList is that of every list, also of one that is never compressed: what is small or streamed now need not stay so.
	varyList   = []string{"Cookie, Origin, Accept-Encoding"}
	jsonType   = []string{"application/json"}
	gzipCoding = []string{"gzip"}
	retryAfter = []string{"1"}
)
