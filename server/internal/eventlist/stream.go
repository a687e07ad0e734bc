package eventlist

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"worldevents/models"
)

// stream writes a list that is too large to hold: what has been read of it, then batch by batch. What is read before
// the first write is shared; from there on the response has a reader and a buffer of its own.
func (p *Response) stream(w http.ResponseWriter) error {
	list, json, client := *p.list, newEncoder(true), newPacedWriter(w)
	defer json.release()
	err := client.writeBatch(json, p.records.bytes, list.Done)
	p.release()
	if err != nil {
		return err
	}
	return streamRest(p.streamContext(), &list, json, client)
}

// renewed is the request's context with the store's whole timeout: the list has been read once already.
func (p *Response) renewed() context.Context {
	return context.WithValue(p.ctx, models.Deadline{}, time.Now().Add(p.lists.store.Timeout()))
}

// streamContext gives each batch of a stream the store's whole timeout.
func (p *Response) streamContext() context.Context {
	return context.WithValue(p.ctx, models.Deadline{}, time.Time{})
}

// streamRest writes what is left of a list in usual batches.
func streamRest(ctx context.Context, list *models.EventReader, json *encoder, client *pacedWriter) error {
	batch := newRecords(true)
	defer batch.release()
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

// streamAnew reads the list again, in small batches until there is memory for usual ones. It returns models.ErrBusy, and
// writes nothing, when too many lists are streamed so.
func (p *Response) streamAnew(w http.ResponseWriter) error {
	user := p.caller.UserID
	if !p.lists.held.small.Try(user, 1) {
		w.Header().Set("Connection", "close") // a connection costs nearly as much as a small batch
		return models.ErrBusy
	}
	defer p.lists.held.small.Release(user, 1)
	list := p.lists.store.List(p.span)
	if p.span.Limit > 0 {
		last, err := list.PinPage(p.renewed())
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
			json.end()
		}
		if err := client.write(json.out); err != nil {
			return err
		}
		json.out = json.out[:0]
	}
	return nil
}

// readSmall encodes the next small batch of a list. Few do so at once: there may be many such lists, and the database's
// connections are for all.
func (l *Lists) readSmall(ctx context.Context, user models.ID, list *models.EventReader, json *encoder) error {
	if !l.held.smallReads.Try(user, 1) {
		resume := l.Pause(ctx)
		err := l.held.smallReads.Acquire(ctx, user)
		resume()
		if err != nil {
			return waitError(ctx, err)
		}
	}
	defer l.held.smallReads.Release(user, 1)
	batch := newRecords(false)
	defer batch.release()
	if err := list.Next(ctx, models.Caller{}, batch); err != nil {
		return err
	}
	json.encode(batch.bytes, maxInt)
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
