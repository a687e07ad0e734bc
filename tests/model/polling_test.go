package model

import "strings"

// list asks for a list and judges it.
func (c *client) list(w *world, q query, instance int) (response, reading, bool) {
	return c.ask(w, q, instance, nil)
}

// again asks for a list that the client has.
func (c *client) again() {
	if len(c.held) == 0 {
		return
	}
	h := &c.held[c.draw(len(c.held))]
	for range 1 + c.draw(5) {
		if _, _, ok := c.ask(h.world, h.reading.query, c.draw(2), h); !ok {
			return
		}
	}
}

// ask judges a list. A 304 is right if what the client has may have been right at some moment.
func (c *client) ask(w *world, q query, instance int, h *held) (r response, list reading, ok bool) {
	tag := ""
	if h != nil {
		tag = h.tag
	}
	r, err := c.site.list(c.user, instance, w, q, tag)
	c.keep(err)
	if err != nil || c.gone(r, nil) {
		return r, list, false
	}
	link := r.header.Get("Link")
	switch {
	case r.status == 304 && h != nil:
		if r.header.Get("ETag") != h.tag || link != h.link {
			c.keep(findingf("304 with ETag %s and Link %q, held are %s and %q", r.header.Get("ETag"), link, h.tag, h.link))
		}
		list = h.reading
		list.call, list.ret = r.call, r.ret
	case r.status == 200:
		if tag != "" && r.header.Get("ETag") == tag {
			c.keep(findingf("200 with the ETag that is held: %s, list%s", tag, q))
		}
		if list, err = newReading(q, r); err != nil {
			c.keep(findingf("no list: %w, list%s %v", err, q, r))
			return r, list, false
		}
		c.same(w, r)
	default:
		c.keep(findingf("list: %v", r))
		return r, list, false
	}
	c.judge(w, list, r.status)
	if t := r.header.Get("ETag"); r.status == 200 && t != "" && len(r.body) < 100<<10 {
		if h == nil {
			if len(c.held) > 8 {
				c.held = c.held[1:]
			}
			c.held = append(c.held, held{world: w, reading: list, tag: t, link: link})
		} else {
			h.reading, h.tag, h.link = list, t, link
		}
	}
	return r, list, c.found.Load() == nil
}

// same fails if one ETag stands for two lists.
func (c *client) same(w *world, r response) {
	tag := r.header.Get("ETag")
	if tag == "" || len(r.body) > 20<<10 {
		return
	}
	c.Lock()
	defer c.Unlock()
	text := w.name + "\n" + r.header.Get("Link") + "\n" + r.body
	if was, known := c.lists[tag]; known && was != text && strings.Contains(r.body, `"id"`) {
		c.keep(findingf("two lists have the ETag %s:\n%.500s\n%.500s", tag, was, text))
	}
	c.lists[tag] = text
}

// judge holds a list against what may have been.
func (c *client) judge(w *world, list reading, status int) {
	c.Lock()
	defer c.Unlock()
	err := w.judge(list)
	w.note(c.user.id, list.call, "list%s until %.6f: %d with %d events, more %v: %v",
		list.query, seconds(list.ret), status, len(list.Events), list.more, err)
	if err != nil {
		c.keep(findingf("list%s read from %.6f to %.6f: %w", list.query, seconds(list.call), seconds(list.ret), err))
	}
}

// walk reads a world page by page.
func (c *client) walk(w *world) {
	q := c.draw.query()
	if q.most < 10 {
		return
	}
	begun, first := now(), q
	seen := make(map[string]bool)
	for c.going() {
		r, list, ok := c.list(w, q, c.draw(2))
		if !ok {
			return
		}
		for _, e := range list.Events {
			if seen[e.ID] {
				c.keep(findingf("a walk has an event twice: walk%s, event %s", first, e.ID))
			}
			seen[e.ID] = true
		}
		if list.more && len(list.Events) > 0 {
			cursor, fault := isNext(w, q, r.header.Get("Link"))
			if fault != "" {
				c.keep(findingf("Link %s: %s", r.header.Get("Link"), fault))
				return
			}
			last := list.Events[len(list.Events)-1]
			c.locked(func() { q = first.next(cursor, w.byName[last.Name].place()) })
			continue
		}
		c.locked(func() {
			for _, e := range w.events {
				if first.covers(e) && e.life.throughout(begun, r.ret) && !seen[e.id] {
					c.keep(findingf("a walk has missed an event: walk%s, event %s", first, e.id))
				}
			}
		})
		return
	}
}

// slowly reads some kilobytes, waits for others to write, and then reads the rest or hangs up.
func (c *client) slowly(w *world) {
	q := c.draw.query()
	s, err := c.open(c.user, c.draw(2), w, q)
	if err != nil {
		c.keep(err)
		return
	}
	defer s.close()
	if s.got.status != 200 {
		return // the user is gone, which plain lists look at
	}
	for range c.draw(5) {
		ended, err := s.some(int64(1+c.draw(100)) << 10)
		c.keep(err)
		if ended {
			c.streamed(w, s)
			return
		}
		c.list(w, c.draw.query(), c.draw(2))
	}
	if c.draw(3) > 0 {
		if err := s.rest(); err != nil {
			c.keep(err)
			return
		}
		c.streamed(w, s)
	}
}

func (c *client) streamed(w *world, s *stream) {
	if s.got.body == "" {
		return
	}
	list, err := newReading(s.query, s.got)
	if err != nil {
		c.keep(findingf("no list: %w, stream%s", err, s.query))
		return
	}
	c.judge(w, list, s.got.status)
	if !list.more {
		return
	}
	cursor, fault := isNext(w, s.query, s.got.header.Get("Link"))
	if fault != "" {
		c.keep(findingf("Link %s: %s", s.got.header.Get("Link"), fault))
		return
	}
	next := s.query
	next.cursor, next.limit, next.most = cursor, "1", 1
	if r, err := c.site.list(c.user, c.draw(2), w, next, ""); err == nil && r.status == 200 {
		following, err := newReading(next, r)
		c.keep(err)
		c.locked(func() {
			for _, e := range following.Events {
				if w.byName[e.Name] == nil {
					return // which the next list shows
				}
			}
			if err := w.continues(list, following); err != nil {
				c.keep(err)
			}
		})
	}
}
