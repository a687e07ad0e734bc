package eventlist

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"worldevents/models"
	"worldevents/server/internal/backpressure"
)

// stream writes a list that is too large to hold: what has been read of it, then batch by batch. What is read before
// the first write is shared; from there on the response has a reader and a buffer of its own.
func (p *Response) stream(w http.ResponseWriter) error {
	list, json, client := *p.list, &encoder{last: p.begun[len(p.begun)-1]}, beginStream(w)
	if err := client.write(p.begun); err != nil {
		return err
	}
	p.sharedRead = nil // what was read takes memory until nobody needs it
	return p.streamRest(&list, json, client, true)
}

// streamAnew reads the list again, in small batches until there is memory for usual ones. It returns models.ErrBusy, and
// writes nothing, when too many lists are streamed so.
func (p *Response) streamAnew(w http.ResponseWriter) error {
	user, key, options := p.caller.UserID, p.key, p.options
	p.sharedRead = nil // what was read takes memory until nobody needs it
	if !p.lists.held.small.Try(user, 1) {
		w.Header().Set("Connection", "close") // a connection costs nearly as much as a small batch
		return models.ErrBusy
	}
	defer p.lists.held.small.Release(user, 1)
	list := p.lists.store.List(options)
	if options.Limit > 0 {
		last, err := list.PinPage(p.lists.store.WithDeadline(p.ctx)) // a new one: the list has been read once already
		if err != nil {
			return err
		}
		if list.More {
			setLink(w.Header(), p.lists.nextLink(key, last))
		}
	}
	p.lists.count(wayStreamedSmall)
	return p.streamRest(list, new(encoder), beginStream(w), false)
}

// streamRest writes what is left of a list, batch by batch. Without room for usual batches it reads small ones until there is some: each
// of these takes the database nearly as long. The response holds no more than a batch as JSON while its client reads.
func (p *Response) streamRest(list *models.EventReader, json *encoder, client *pacedWriter, room bool) error {
	ctx := context.WithValue(p.ctx, models.Deadline{}, time.Time{}) // each batch has the store's whole timeout
	memory, user := p.lists.held.memory, p.caller.UserID
	for !list.Done {
		if err := client.check(ctx); err != nil {
			return err
		}
		if !room && memory.Try(user, streamBytes) {
			defer memory.Release(user, streamBytes)
			room = true
		}
		if err := p.lists.readBatch(ctx, user, list, json, room); err != nil {
			return err
		}
		if list.Done {
			json.finish()
		}
		if err := client.write(json.out); err != nil {
			return err
		}
		json.written()
	}
	return nil
}

// readBatch reads the next batch of a list. Few read small ones at once: there may be many such lists, and the database's connections
// are for all.
func (l *Lists) readBatch(ctx context.Context, user models.ID, list *models.EventReader, json *encoder, room bool) error {
	list.SetSmall(!room)
	if !room {
		if err := acquire(ctx, l.held.smallReads, user); err != nil {
			return err
		}
		defer l.held.smallReads.Release(user, 1)
	}
	return list.Next(ctx, models.Caller{}, json)
}

const (
	// chunkSize is how much of a streamed list is written together, in bytes of JSON.
	chunkSize = 128 << 10
	// chunkTimeout is how long a client may take to read a chunk.
	chunkTimeout = 30 * time.Second
	// streamTime is how long a stream may take, besides the backpressure.TimeFor of what was written. It ends then: a client
	// that reads no faster does not want the list.
	streamTime = time.Minute
)

// pacedWriter writes to a client that must read as fast as the constants above demand.
type pacedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	begin   time.Time
	written int64
}

// beginStream begins a response 200.
func beginStream(w http.ResponseWriter) *pacedWriter {
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(http.StatusOK)
	return &pacedWriter{w, http.NewResponseController(w), time.Now(), 0}
}

// deadline is when all that has been written must have been read.
func (w *pacedWriter) deadline() time.Time {
	return w.begin.Add(streamTime + backpressure.TimeFor(w.written))
}

// write writes JSON in chunks. It returns ErrClientGone.
func (w *pacedWriter) write(json []byte) error {
	for chunk := range slices.Chunk(json, chunkSize) {
		w.written += int64(len(chunk))
		deadline := time.Now().Add(chunkTimeout)
		if d := w.deadline(); d.Before(deadline) {
			deadline = d
		}
		w.control.SetWriteDeadline(deadline)
		if _, err := w.Write(chunk); err != nil {
			return fmt.Errorf("%w: %w", ErrClientGone, err)
		}
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
