package eventlist

import "sync"

// turns lets few of those who have waited have their responses written at once, in the order of their news. Until its turn
// comes a request is not even woken: the scheduler would run thousands of goroutines that are ready before it came to the
// goroutine of any other request.
type turns struct {
	mu    sync.Mutex
	free  int
	queue []turn
}

// turn is news and who gets it. The channel must have room.
type turn struct {
	to   chan<- news
	news news
}

// give sends n to a request when its turn has come, which ends with end.
func (t *turns) give(to chan<- news, n news) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free == 0 {
		t.queue = append(t.queue, turn{to, n})
		return
	}
	t.free--
	to <- n
}

// end gives the turn to the next.
func (t *turns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.free++
		return
	}
	next := t.queue[0]
	t.queue[0] = turn{} // it may hold a list
	if t.queue = t.queue[1:]; len(t.queue) == 0 {
		t.queue = nil
	}
	next.to <- next.news
}
