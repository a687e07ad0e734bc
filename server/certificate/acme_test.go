package certificate

import (
	"bytes"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// authority refuses every order.
type authority struct{ orders int }

func (a *authority) RoundTrip(r *http.Request) (*http.Response, error) {
	status, text := 200, "{}"
	switch name := path.Base(r.URL.Path); {
	case name == "directory":
		text = `{"newNonce":"https://ca.test/nonce","newAccount":"https://ca.test/account","newOrder":"https://ca.test/order"}`
	case name == "account":
		status = 201
	case name == "order":
		a.orders++
		status, text = 403, `{"type":"urn:ietf:params:acme:error:rejectedIdentifier","detail":"not this host"}`
	}
	header := http.Header{"Replay-Nonce": {"x"}, "Location": {"https://ca.test/accounts/1"}}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

// handshakes has a client of host ask every half minute, so many times.
func handshakes(a *ACME, n int) {
	for range n {
		if cert, err := a.get(&tls.ClientHelloInfo{ServerName: "we.example.test"}); cert != nil || err == nil {
			panic("there is a certificate")
		}
		time.Sleep(30 * time.Second)
	}
}

func open(t *testing.T, authority *authority) (*ACME, *bytes.Buffer) {
	t.Helper()
	log := new(bytes.Buffer)
	a, err := OpenACME(t.TempDir(), "We.Example.test", "https://ca.test/directory", slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	a.manager.Client.HTTPClient = &http.Client{Transport: authority}
	return a, log
}

// An authority allows five failed orders an hour, and gets no more of clients that keep asking. The log says so once an hour.
func TestRefusedOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority := new(authority)
		a, log := open(t, authority)
		for _, step := range []struct {
			handshakes, orders, lines int
		}{
			{20, 4, 1},         // ten minutes
			{100, 6, 1},        // an hour
			{10 * 120, 16, 11}, // ten more, one order in each
		} {
			handshakes(a, step.handshakes)
			if lines := strings.Count(log.String(), "level=WARN"); authority.orders != step.orders || lines != step.lines {
				t.Errorf("%d orders, want %d; %d lines of the log, want %d:\n%s", authority.orders, step.orders, lines, step.lines, log)
			}
		}
		if !strings.Contains(log.String(), "not this host") || !strings.Contains(log.String(), "next_try=1m5s") {
			t.Errorf("the log does not say why, or when: %s", log)
		}
	})
}

// Many handshakes at once are one order, and its failure counts once.
func TestOrdersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority := new(authority)
		a, _ := open(t, authority)
		for range 20 {
			go handshakes(a, 1)
		}
		synctest.Wait()
		if authority.orders != 1 || a.wait != firstWait {
			t.Errorf("%d orders, and the next after %v", authority.orders, a.wait)
		}
		time.Sleep(time.Minute)
	})
}

// Whatever names clients send, the certificate of one host is ordered. Another has none, and no error: its client gets an alert.
func TestAnotherHost(t *testing.T) {
	authority := new(authority)
	a, _ := open(t, authority)
	for _, host := range []string{"", "other.example.test", "a.we.example.test", "example.test"} {
		if cert, err := a.get(&tls.ClientHelloInfo{ServerName: host}); cert != nil || err != nil {
			t.Errorf("%q: %v, %v", host, cert, err)
		}
	}
	if authority.orders > 0 {
		t.Errorf("%d orders", authority.orders)
	}
}
