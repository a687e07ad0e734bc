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
	list, json, client := *p.list, newEncoder(true), newPacedWriter(w)
	defer json.release()
	json.last = p.begun[len(p.begun)-1]
	if err := client.writeAll(p.begun); err != nil {
		return err
	}
	p.sharedRead = nil // what was read takes memory until nobody needs it
	return streamRest(p.streamContext(), &list, json, client)
}

// streamContext gives each batch of a stream the store's whole timeout.
func (p *Response) streamContext() context.Context {
	return context.WithValue(p.ctx, models.Deadline{}, time.Time{})
}

// streamRest writes what is left of a list in usual batches.
func streamRest(ctx context.Context, list *models.EventReader, json *encoder, client *pacedWriter) error {
	for !list.Done {
		if err := client.check(ctx); err != nil {
			return err
		}
		if err := list.Next(ctx, models.Caller{}, json); err != nil {
			return err
		}
		if list.Done {
			json.finish()
		}
		if err := client.writeAll(json.out); err != nil {
			return err
		}
		json.written()
	}
	return nil
}

// streamAnew reads the list again, in small batches until there is memory for usual ones. It returns models.ErrBusy, and
// writes nothing, when too many lists are streamed so.
func (p *Response) streamAnew(w http.ResponseWriter) error {
	p.sharedRead = nil // what was read takes memory until nobody needs it
	user := p.caller.UserID
	if !p.lists.held.small.Try(user, 1) {
		w.Header().Set("Connection", "close") // a connection costs nearly as much as a small batch
		return models.ErrBusy
	}
	defer p.lists.held.small.Release(user, 1)
	list := p.lists.store.List(p.options)
	if p.options.Limit > 0 {
		last, err := list.PinPage(p.lists.store.WithDeadline(p.ctx)) // a new one: the list has been read once already
		if err != nil {
			return err
		}
		if list.More {
			setLink(w.Header(), p.lists.nextLink(p.key, last))
		}
	}
	p.lists.count(wayStreamedSmall)
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(http.StatusOK)
	ctx, json, client := p.streamContext(), newEncoder(false), newPacedWriter(w)
	defer json.release()
	if err := p.streamSmall(ctx, list, json, client); err != nil || list.Done {
		return err
	}
	defer p.lists.held.memory.Release(user, streamBytes)
	json.large = true
	return streamRest(ctx, list, json, client)
}

// streamSmall writes the list in small batches, each whole, so that the response holds no more than one as JSON while its client
// reads. It returns before the list is done once it has acquired the memory for usual batches: a small batch
// takes the database nearly as long as a usual one.
func (p *Response) streamSmall(ctx context.Context, list *models.EventReader, json *encoder, client *pacedWriter) error {
	list.SetSmall(true)
	for !list.Done {
		if err := client.check(ctx); err != nil {
			return err
		}
		if p.lists.held.memory.Try(p.caller.UserID, streamBytes) {
			list.SetSmall(false)
			return nil
		}
		if err := p.lists.readSmall(ctx, p.caller.UserID, list, json); err != nil {
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

// readSmall reads the next small batch of a list. Few do so at once: there may be many such lists, and the database's
// connections are for all.
func (l *Lists) readSmall(ctx context.Context, user models.ID, list *models.EventReader, json *encoder) error {
	if err := acquire(ctx, l.held.smallReads, user); err != nil {
		return err
	}
	defer l.held.smallReads.Release(user, 1)
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

func newPacedWriter(w http.ResponseWriter) *pacedWriter {
	return &pacedWriter{w, http.NewResponseController(w), time.Now(), 0}
}

// deadline is when all that has been written must have been read.
func (w *pacedWriter) deadline() time.Time {
	return w.begin.Add(streamTime + backpressure.TimeFor(w.written))
}

// writeAll writes JSON in chunks. It returns ErrClientGone.
func (w *pacedWriter) writeAll(json []byte) error {
	for chunk := range slices.Chunk(json, chunkSize) {
		if err := w.write(chunk); err != nil {
			return err
		}
	}
	return nil
}

// write writes a chunk. It returns ErrClientGone.
func (w *pacedWriter) write(chunk []byte) error {
	w.written += int64(len(chunk))
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
