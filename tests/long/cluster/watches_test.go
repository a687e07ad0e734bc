package cluster

import (
	"fmt"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// watch is a request that waits for news of a list. While there is no database it may be told so, and asks again.
type watch struct {
	instance *instance
	world    string
	user     *servicetest.Browser
	tag      string // of the list that the user has
	// hasNews means that the list, or the user, will be lost.
	hasNews bool
	// how the answer was waited for: after a response without a list or not. It may be read after the answer.
	how    string
	answer chan response
}

// watchAll begins to wait for news of each list at each instance, and of one as the user who will be lost.
func (d *asyncDrill) watchAll() (all []*watch) {
	d.t.Helper()
	begin := func(i *instance, world string, user *servicetest.Browser, hasNews bool) {
		tag := d.ask(i, world, "", "identity").Header.Get("ETag")
		w := &watch{i, world, user, tag, hasNews, "still waiting", make(chan response, 1)}
		all = append(all, w)
		go w.run(d)
	}
	for _, i := range d.instances {
		for _, world := range d.worlds {
			begin(i, world, d.reader, lossy(world))
		}
		begin(i, "unchanged", d.lost, true)
	}
	for _, i := range d.instances {
		servicetest.Eventually(d.t, "all wait", func() bool { return int(i.process.Metric("worldevents_list_watches")) == len(d.worlds)+1 })
	}
	return all
}

func (w *watch) run(d *asyncDrill) {
	for {
		var res response
		if w.user == d.reader {
			res = d.ask(w.instance, w.world, "?wait=50", "identity", w.tag).response
		} else {
			res = d.do(w.instance, w.user, "GET", "/api/event/"+w.world+"?wait=50", "", servicetest.IfNoneMatch(w.tag))
		}
		if res.Status != 500 && res.Status != 503 {
			w.answer <- res
			return
		}
		w.how = fmt.Sprintf("having asked again after %v", res)
		time.Sleep(10 * time.Millisecond)
	}
}

// awaitNews waits until the watch is told what it must hear soon after the promotion: another list, or that the user is not known.
// The judge of all lists says whether the list is right.
func (w *watch) awaitNews(t *testing.T, promoted, dead time.Time) {
	t.Helper()
	const patience = 20 * time.Second // it takes about two, and the machine may do much else
	select {
	case res := <-w.answer:
		isNews := res.Status == 200 && res.Header.Get("ETag") != w.tag
		if w.world == "unchanged" {
			isNews = res.Status == 401
		}
		if !isNews || received(res).Before(dead) {
			t.Errorf("%s: who waits for news of %s and has %s gets %v", w.instance.name, w.world, w.tag, res)
		}
		t.Logf("%s: who waits for news of %s is told %d %v after the promotion, %s", w.instance.name, w.world, res.Status, received(res).Sub(promoted).Round(time.Millisecond), w.how)
	case <-time.After(time.Until(promoted.Add(patience))):
		t.Errorf("%s: who waits for news of %s is told nothing for %v after the promotion", w.instance.name, w.world, patience)
	}
}

// awaitEnd waits until the watch is told that nothing has changed.
func (w *watch) awaitEnd(t *testing.T) {
	t.Helper()
	select {
	case res := <-w.answer:
		if res.Status != 304 {
			t.Errorf("%s: who waits for news of %s gets %v", w.instance.name, w.world, res)
		}
	case <-time.After(time.Minute):
		t.Errorf("%s: who waits for news of %s is told nothing", w.instance.name, w.world)
	}
}
