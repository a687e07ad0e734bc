package eventlist

import "sync/atomic"

// way is how a response came about.
type way int

const (
	wayRead way = iota
	wayShared
	wayCached
	wayStreamed
	wayStreamedSmall
	wayUnchangedRead
	wayUnchangedCached
	ways
)

// wayNames are those of metrics.
var wayNames = [ways]string{
	"read", "shared", "cached", "streamed", "streamed_small", "unchanged_read", "unchanged_cached",
}

func (l *Lists) count(w way) { l.ways[w].Add(1) }

// Ways returns how many responses came about in which way, by name.
func (l *Lists) Ways() map[string]*atomic.Uint64 {
	all := make(map[string]*atomic.Uint64)
	for i, name := range wayNames {
		all[name] = &l.ways[i]
	}
	return all
}

// unchangedWay is the way of a 304.
func (p *Response) unchangedWay() way {
	if p.unread {
		return wayUnchangedCached
	}
	return wayUnchangedRead
}

// wholeWay is the way of a list that is held.
func (p *Response) wholeWay() way {
	switch {
	case p.unread:
		return wayCached
	case len(p.callers) > 1:
		return wayShared
	}
	return wayRead
}
