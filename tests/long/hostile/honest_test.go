package hostile

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// honestIP is the address that honest users have. Those of attackers are others.
var honestIP = net.IPv4(127, 0, 0, 2)

// person is an honest user with three accounts: two that write to and wait for each other, and one that signs in and out.
type person struct {
	t          *testing.T
	name       string
	url        string
	kept, anew *http.Transport // connections that are kept, and new ones
	alice, bob *servicetest.Browser
	rounds     int
}

// sample is a request of an honest user.
type sample struct {
	what  string
	took  time.Duration
	fault string // "" for none
}

func transport(keep bool) *http.Transport {
	return &http.Transport{
		DisableKeepAlives: !keep, MaxIdleConnsPerHost: 4, DisableCompression: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ClientSessionCache: sessions},
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return dial(ctx, honestIP, address, false, 0)
		},
	}
}

func newPerson(t *testing.T, name, url string) *person {
	p := &person{t: t, name: name, url: url, kept: transport(true), anew: transport(false)}
	t.Cleanup(p.leave)
	p.alice, p.bob = p.browser(p.kept), p.browser(p.kept)
	for _, b := range []*servicetest.Browser{p.alice, p.bob} {
		b.SignIn(fmt.Sprintf("%s %p", name, b)).Is(t, 303)
	}
	return p
}

func (p *person) browser(transport *http.Transport) *servicetest.Browser {
	b := servicetest.NewBrowser(p.url, transport)
	b.Timeout = 20 * time.Second
	return b
}

func (p *person) leave() {
	p.kept.CloseIdleConnections()
	p.anew.CloseIdleConnections()
}

// judge makes a sample of a response, which must have the status.
func judge(what string, res servicetest.Result, status int) sample {
	s := sample{what: what, took: res.Took}
	if res.Status != status || res.Err != nil {
		s.fault = fmt.Sprintf("%s: %v, want %d", what, res, status)
	}
	return s
}

// round is one of each request. Where others may fill all places of those who wait, a wait may end early.
func (p *person) round(mayEndEarly bool) (all []sample) {
	add := func(s sample) { all = append(all, s) }
	p.rounds++
	world := "/api/event/" + url.PathEscape(fmt.Sprintf("%s %d %d", p.name, p.rounds, time.Now().UnixNano()))
	add(judge("create", p.alice.Do("POST", world, create), 200))
	fresh := p.alice.Clone()
	fresh.Transport = p.anew
	list := fresh.Do("GET", world, "")
	add(judge("list", list, 200))

	all = append(all, p.await(world, list.Header.Get("ETag"), mayEndEarly)...)
	for _, b := range []*servicetest.Browser{p.alice, p.bob} { // the service may serve cells for longer than a JWT lives
		add(judge("refresh", b.Do("GET", "/api/auth/refresh", ""), 200))
	}

	guest := p.browser(p.kept)
	in := guest.SignIn(p.name + " guest")
	add(judge("sign-in", in, 303))
	if in.Status == 303 {
		_, claims := servicetest.DecodeJWT(p.t, guest.Cookies["token"])
		add(judge("end of a session", guest.Do("POST", "/sessions/end", fmt.Sprint("id=", claims["sid"]), servicetest.AsForm), 204))
		if guest.Cookies["refreshToken"] != "" {
			add(sample{what: "end of a session", fault: "end of a session: the cookies are still there"})
		}
	}
	return all
}

// await waits for news of a list and has another account make them. The time of the wait counts from then on.
func (p *person) await(path, tag string, mayEndEarly bool) []sample {
	var news servicetest.Result
	var waiting sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	waiter := p.alice.Clone()
	waiting.Go(func() {
		news = waiter.Do("GET", path+"?wait=15", "", servicetest.IfNoneMatch(tag), func(r *http.Request) { *r = *r.WithContext(ctx) })
	})
	time.Sleep(20 * time.Millisecond) // so that the request mostly waits before there are news
	created := p.bob.Do("POST", path, create)
	all := []sample{judge("create", created, 200)}
	if created.Status != 200 { // there are none
		cancel()
		waiting.Wait()
		return all
	}
	waiting.Wait()
	if news.Status == 304 && mayEndEarly && news.Header.Get("Retry-After") != "" {
		news = waiter.Do("GET", path, "")
	}
	s := judge("wait with news", news, 200)
	s.took = max(0, news.Sent.Add(news.Took).Sub(created.Sent))
	if s.fault == "" && news.Header.Get("ETag") == tag {
		s.fault = "wait with news: the list that was there before"
	}
	return append(all, s)
}

// percentile returns the sample that so many percent are not slower than.
func percentile(all []sample, percent int) sample {
	all = slices.SortedFunc(slices.Values(all), func(a, b sample) int { return int(a.took - b.took) })
	return all[min(len(all)-1, len(all)*percent/100)]
}
