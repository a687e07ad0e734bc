package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// watcher is a page that waits for news of a list, over a connection of its own.
type watcher struct {
	*client
	user  int
	world string
	last  response
}

// watch has a watcher for each of n worlds, one user after the other, ask for wait seconds what has become of the list that
// it has. It returns once all requests are sent.
func (c crowd) watch(s *server, n, wait int, world func(i int) string, etags map[string]string) ([]*watcher, error) {
	all := make([]*watcher, n)
	err := each(n, func(i int) error {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			return err
		}
		all[i] = &watcher{client: &client{conn: conn, r: newSmallReader(conn)}, user: 1 + i%c.users(), world: world(i)}
		all[i].last.etag = etags[all[i].world]
		_, err = conn.Write(all[i].request(c, wait))
		return err
	})
	return all, err
}

// request asks for the list, without waiting if wait is 0.
func (w *watcher) request(c crowd, wait int) []byte {
	path := "/api/event/" + w.world
	if wait > 0 {
		path += fmt.Sprint("?wait=", wait)
	}
	return c.getAs(w.user, path, "If-None-Match: "+w.last.etag+"\r\n")
}

// news reads the response to a request that was sent, into body.
func (w *watcher) news(body io.Writer) error {
	if err := w.read(&w.last, body); err != nil {
		return err
	}
	if w.last.status != 200 && w.last.status != 304 {
		return fmt.Errorf("a watcher of %s: status %d", w.world, w.last.status)
	}
	return nil
}

func hangUp(all []*watcher) {
	for _, w := range all {
		w.conn.Close()
	}
}

// each calls do with 0 to n-1, all at once.
func each(n int, do func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err // one of many alike
		}
	}
	return nil
}

// etagsOf asks for lists one after the other on some connections.
func (c crowd) etagsOf(s *server, n int, world func(i int) string) (map[string]string, error) {
	etags, mu, next := make(map[string]string), sync.Mutex{}, atomic.Int64{}
	err := each(connections, func(int) error {
		one, err := dial(s.addr)
		if err != nil {
			return err
		}
		defer one.conn.Close()
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			var res response
			if err := one.do(c.list(world(i)), &res, nil); err != nil {
				return err
			}
			if res.etag == "" {
				return fmt.Errorf("%s: no ETag, status %d", world(i), res.status)
			}
			mu.Lock()
			etags[world(i)] = res.etag
			mu.Unlock()
		}
		return nil
	})
	return etags, err
}

// growth is when a watched list was seen with so many events.
type growth struct {
	events int
	at     time.Time
}

// follow waits for news again and again until end, and returns what came.
func (w *watcher) follow(c crowd, end time.Time) (grown []growth, err error) {
	var body bytes.Buffer
	for {
		w.conn.SetReadDeadline(end)
		body.Reset()
		if err := w.news(&body); err != nil {
			if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
				return grown, nil
			}
			return grown, err
		}
		if at := time.Now(); w.last.status == 200 {
			grown = append(grown, growth{bytes.Count(body.Bytes(), []byte(`"id":`)), at})
		}
		if _, err := w.conn.Write(w.request(c, 50)); err != nil {
			return grown, err
		}
	}
}
