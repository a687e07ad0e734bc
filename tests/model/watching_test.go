package model

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// watcher holds a world's list and waits for news of it, on one instance.
type watcher struct {
	*client
	world    *world
	instance int

	mu   sync.Mutex
	body string
	gone bool // the operator has removed the user
}

// watchAll has every world watched on both instances, until stop.
func (r *round) watchAll() (all []*watcher, stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i, w := range append(r.worlds, r.worlds...) {
		u, err := r.signIn(r.state, "watcher "+string(rune('a'+i))+strings.Repeat("x", int(r.serial())%10))
		if err != nil {
			cancel()
			return nil, nil, err
		}
		v := &watcher{
			client: &client{round: r, user: u, reads: true, draw: rand.New(rand.NewPCG(r.seed, uint64(1000+i))).IntN},
			world:  w, instance: i / len(r.worlds),
		}
		all = append(all, v)
		running.Go(func() { v.run(ctx) })
	}
	return all, func() { cancel(); running.Wait() }, nil
}

// run judges every response as one to a request that took as long as it waited.
func (v *watcher) run(ctx context.Context) {
	var had held
	for v.found.Load() == nil {
		r, err := v.site.wait(ctx, v.user, v.instance, v.world, had.tag)
		if ctx.Err() != nil {
			return
		}
		v.keep(err)
		if err != nil || v.client.gone(r, nil) {
			v.set("", true)
			return
		}
		list := had.reading
		list.call, list.ret = r.call, r.ret
		switch {
		case r.status == 200:
			if tag := r.header.Get("ETag"); tag != "" && tag == had.tag {
				v.keep(findingf("waiting brings the ETag that is held: %s", tag))
			}
			if list, err = newReading(wholeWorld(), r); err != nil {
				v.keep(findingf("no list: %w, after waiting %v", err, r))
				return
			}
			v.same(v.world, r)
			had = held{world: v.world, reading: list, tag: r.header.Get("ETag")}
			v.set(r.body, false)
		case r.status != 304 || had.tag == "" || r.header.Get("Retry-After") != "":
			v.keep(findingf("waiting: %v", r))
			return
		}
		v.client.judge(v.world, list, r.status)
		if had.tag == "" {
			time.Sleep(100 * time.Millisecond) // the list is too large to be waited for
		}
	}
}

func (v *watcher) set(body string, gone bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.body, v.gone = body, gone
}

// has reports whether the watcher needs nothing more to have this list.
func (v *watcher) has(body string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.gone || v.body == body
}

// newsPatience is far longer than news takes, on a machine that is busy.
const newsPatience = time.Minute

// watched waits until everybody who watches has what the worlds are now, once nothing is under way.
func (r *round) watched(all []*watcher) {
	for _, v := range all {
		u, err := r.signIn(r.state, "reader "+v.user.id)
		r.keep(err)
		if err != nil {
			return
		}
		plain, err := r.site.list(u, v.instance, v.world, wholeWorld(), "")
		r.keep(err)
		for deadline := time.Now().Add(newsPatience); err == nil && !v.has(plain.body) && r.found.Load() == nil; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				v.mu.Lock()
				r.keep(findingf("who waits on instance %d for %s has an old list of %d bytes: %.2000s\nit is now %d bytes: %.2000s",
					v.instance, v.world.name, len(v.body), v.body, len(plain.body), plain.body))
				v.mu.Unlock()
			}
		}
	}
}
