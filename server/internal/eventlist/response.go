package eventlist

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"worldevents/models"
	"worldevents/server/internal/accept"
)

// Response is the response 200, or 304 when the client has the list already.
type Response struct {
	*sharedRead
	ctx    context.Context
	caller Caller
}

// Write writes the response. It returns ErrClientGone, and for a list that is streamed the errors of reading: then the
// response has begun and must be aborted, so that it does not end as if it were whole.
func (p *Response) Write(w http.ResponseWriter) error {
	h := w.Header()
	h["Cache-Control"] = mustRevalidate
	h["Vary"] = varyList
	if p.link != "" {
		h.Set("Link", p.link)
	}
	if !p.list.Done {
		h["Content-Type"] = jsonType
		w.WriteHeader(http.StatusOK)
		return p.stream(w)
	}
	defer p.release()
	h["Etag"] = []string{p.etag}
	if etagMatches(p.caller.IfNoneMatch, p.etag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	body := p.body()
	if len(body) >= minCompressed && accept.Gzip(p.caller.AcceptEncoding) {
		body = p.gzipBody(body)
		h["Content-Encoding"] = gzipCoding
	}
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(http.StatusOK)
	if _, err := w.Write(body); err != nil {
		return fmt.Errorf("%w: %w", ErrClientGone, err)
	}
	return nil
}

var (
	mustRevalidate = []string{"private, no-cache"}
	// varyList is that of every list, also of one that is never compressed: what is small or streamed now need not stay so.
	varyList   = []string{"Cookie, Origin, Accept-Encoding"}
	jsonType   = []string{"application/json"}
	gzipCoding = []string{"gzip"}
)

// stream writes a list that is too large to hold: what has been read of it, then batch by batch. What is read before
// the first write is shared; from there on the response has a reader and a buffer of its own.
func (p *Response) stream(w http.ResponseWriter) error {
	list, json, client := *p.list, newEncoder(), newPacedWriter(w)
	defer json.release()
	err := client.writeBatch(json, p.records.bytes, list.Done)
	p.release()
	if err != nil || list.Done {
		return err
	}
	batch := newRecords()
	defer batch.release()
	ctx := context.WithValue(p.ctx, models.Deadline{}, time.Time{}) // each batch has the store's whole timeout
	for !list.Done {
		if err := client.check(ctx); err != nil {
			return err
		}
		batch.reset()
		if err := list.Next(ctx, models.Caller{}, batch); err != nil {
			return err
		}
		if err := client.writeBatch(json, batch.bytes, list.Done); err != nil {
			return err
		}
	}
	return nil
}

const (
	// chunkSize is how much of a streamed list is encoded and written together, in bytes of JSON: more would have to
	// come back from slower memory.
	chunkSize = 128 << 10
	// chunkTimeout is how long a client may take to read a chunk.
	chunkTimeout = 30 * time.Second
	// A stream may take streamTime and a second for each streamRate bytes. A client that reads no faster than that is
	// none that waits for the list, and a stream that does not end by itself is ended.
	streamTime = time.Minute
	streamRate = 16 << 10
)

// pacedWriter writes to a client that must read as fast as the constants above demand.
type pacedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	begin   time.Time
	written int
}

func newPacedWriter(w http.ResponseWriter) *pacedWriter {
	return &pacedWriter{w, http.NewResponseController(w), time.Now(), 0}
}

// deadline is when all that has been written must have been read.
func (w *pacedWriter) deadline() time.Time {
	return w.begin.Add(streamTime + time.Duration(w.written)*time.Second/streamRate)
}

// writeBatch encodes records and writes them in chunks; last ends the list. It returns ErrClientGone.
func (w *pacedWriter) writeBatch(json *encoder, batch []byte, last bool) error {
	for {
		batch = json.encode(batch, chunkSize)
		ended := len(batch) == 0
		if ended && last {
			json.end()
		}
		err := w.write(json.out)
		json.out = json.out[:0]
		if err != nil || ended {
			return err
		}
	}
}

// write writes a chunk. It returns ErrClientGone.
func (w *pacedWriter) write(chunk []byte) error {
	w.written += len(chunk)
	deadline := time.Now().Add(chunkTimeout)
	if d := w.deadline(); d.Before(deadline) {
		deadline = d
	}
	w.control.SetWriteDeadline(deadline)
	if _, err := w.Write(chunk); err != nil {
		return fmt.Errorf("%w: %w", ErrClientGone, err)
	}
	return nil
}

// check returns ErrClientGone for a client that has hung up, or whose time is over.
func (w *pacedWriter) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrClientGone, err)
	}
	if time.Now().After(w.deadline()) {
		return fmt.Errorf("%w: the list took too long", ErrClientGone)
	}
	return nil
}
