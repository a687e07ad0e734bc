package api

import (
	"net/netip"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

func TestRateLimit(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, func(o *servicetest.Options) { o.RateLimit, o.AllowedOrigins = 0.01, []string{"https://app.example"} })
	alice := s.SignIn("alice")
	alice.Get(servicetest.Plaza).Is(200, servicetest.List())
	for _, path := range []string{servicetest.Plaza, servicetest.SessionPath, servicetest.RefreshPath, "/sign-in"} {
		alice.Get(path).IsError(429, "rate_limited").HasHeader("Retry-After", "1").SetsNoCookie()
	}
	// Who is behind X-Forwarded-For counts only when a trusted proxy says so.
	alice.Get(servicetest.Plaza, servicetest.Header("X-Forwarded-For", "192.0.2.1"), servicetest.Header("X-Real-Ip", "192.0.2.1")).IsError(429, "rate_limited")
	alice.Get(servicetest.Plaza, servicetest.Origin("https://app.example")).IsError(429, "rate_limited").
		HasHeader("Access-Control-Allow-Origin", "https://app.example")
}

func TestRateLimitBehindProxy(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, func(o *servicetest.Options) {
		o.RateLimit = 0.01
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}
	})
	alice := s.SignIn("alice")
	for _, test := range []struct {
		from   string
		status int
	}{
		{"192.0.2.1", 200}, {"192.0.2.1", 429}, {"192.0.2.2", 200},
		{"192.0.2.9, 192.0.2.2", 429},                      // what the client itself claims is further left
		{"192.0.2.2, 10.1.2.3", 429},                       // and trusted proxies are passed over
		{"::ffff:10.0.0.1", 200}, {"::ffff:10.0.0.2", 200}, // IPv4 in IPv6 is no such /64
		{"2001:db8::1", 200}, {"2001:db8::2", 429}, {"2001:db8:0:1::1", 200}, // an IPv6 client is its /64
	} {
		alice.Get(servicetest.Plaza, servicetest.Header("X-Forwarded-For", test.from)).Has(test.status)
	}
}

// Too many requests in flight are refused at once, and the ones in flight complete.
func TestMaxInFlight(t *testing.T) {
	const limit = 3
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		release := servicetest.Lock(t, s.Database, "events")
		responses := make(chan *servicetest.Response, limit)
		for range limit {
			go func() { responses <- alice.Post(servicetest.Plaza, servicetest.EventBody) }()
		}
		servicetest.Eventually(t, "all are in flight", func() bool { return servicetest.Held(t, s, "requests") == limit })
		for _, path := range []string{servicetest.SessionPath, servicetest.Plaza} {
			if res := alice.Get(path).IsError(503, "overloaded").HasHeader("Retry-After", "1"); !res.Close {
				t.Error("a response that was refused keeps a connection")
			}
		}
		release()
		for range limit {
			(<-responses).Is(200, servicetest.Success)
		}
		alice.Post(servicetest.Plaza, servicetest.EventBody).Is(200, servicetest.Success)
	}, func(o *servicetest.Options) { o.MaxInFlight = limit })
}

// Where no pooled connection comes free in time the response is 503, and no token is spent.
func TestNoConnectionInTime(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, first *servicetest.Service) {
		alice := first.SignIn("alice")
		// An instance that has written nothing runs no transaction yet, which both would wait for, and then share the next.
		s := first.NewInstance(func(o *servicetest.Options) {
			o.DBMaxConns, o.DBTimeout, o.DBMaxWait = 1, 40*time.Second, 5*time.Second
		})
		release := servicetest.Lock(t, s.Database, "users")
		responses := make(chan *servicetest.Response)
		for range 2 {
			go func() { responses <- alice.On(s).Get(servicetest.RefreshPath) }()
			s.Database.AwaitLock(t)
		}
		// One of them has the connection and waits for the lock, and the other waits for the connection.
		(<-responses).IsError(503, "overloaded").HasHeader("Retry-After", "1").SetsNoCookie()
		release()
		(<-responses).Is(200, servicetest.Success)
	})
}
