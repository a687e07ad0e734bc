package sessions

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

const (
	firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
	edge    = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0"
	curl    = "curl/8.9.1"
)

const (
	nobody          = "Nobody is signed in here"
	signedInAsAlice = `Signed in as <b dir="auto">alice</b>`
)

// upTo lets a user have n sessions.
func upTo(n int) servicetest.Option {
	return func(o *servicetest.Options) { o.Sessions.PerUser = n }
}

// behindProxy believes the tests about where a client is.
func behindProxy(o *servicetest.Options) {
	o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// signInFrom signs a user in with the form, from a device and an address.
func signInFrom(s *servicetest.Service, username, userAgent, address string) *servicetest.Client {
	c := s.Client()
	c.Post("/sign-in", url.Values{"username": {username}}.Encode(), servicetest.AsForm,
		servicetest.Header("User-Agent", userAgent), servicetest.Header("X-Forwarded-For", address)).Is(303, "")
	return c
}

// entry is a session as the page shows it.
type entry struct{ device, begun, active, network, id string }

var entryPattern = regexp.MustCompile(`(?s)<h3 id="session-[^"]+">([^<]*)</h3>\s*<p><span>Signed in <time datetime="([^"]+)">[^<]+ UTC</time></span> ` +
	`<span>Last active <time datetime="([^"]+)">[^<]+ UTC</time></span> <span>([^<]*)</span></p>.*?name="id" value="([^"]+)"`)

// sessionsOf reads the page: the session of this device, which has to be there, and the others.
func sessionsOf(t *testing.T, c *servicetest.Client) (own entry, others []entry) {
	t.Helper()
	page := c.Get("/sessions").HasHeader("Content-Type", "text/html; charset=utf-8").HasHeader("Cache-Control", "no-store").SetsNoCookie()
	here, elsewhere, ok := strings.Cut(page.Body, "<h2>Other devices</h2>")
	if page.Status != 200 || !ok || strings.Contains(page.Body, nobody) {
		t.Fatalf("%d %s", page.Status, page.Body)
	}
	read := func(text string) (all []entry) {
		for _, m := range entryPattern.FindAllStringSubmatch(text, -1) {
			all = append(all, entry{m[1], m[2], m[3], m[4], m[5]})
		}
		servicetest.Is(t, strings.Count(text, "<li>"), len(all), "entries of %s", text)
		servicetest.Is(t, strings.Count(text, `End<span class="unseen"> this session</span>`), len(all), "buttons of %s", text)
		return all
	}
	all := read(here)
	if len(all) != 1 {
		t.Fatalf("%d sessions are of this device: %s", len(all), page.Body)
	}
	own, others = all[0], read(elsewhere)
	servicetest.Is(t, strings.Contains(elsewhere, "End all others"), len(others) > 0, "%d others, and to end them is offered", len(others))
	return own, others
}

// seesNobody fails the test unless the page says that nobody is signed in.
func seesNobody(t *testing.T, c *servicetest.Client, with ...servicetest.RequestOption) {
	t.Helper()
	page := c.Get("/sessions", with...).HasHeader("Cache-Control", "no-store").SetsNoCookie()
	servicetest.Contains(t, page.Has(200).Body, nobody)
	servicetest.Lacks(t, page.Body, "Signed in as")
	servicetest.Lacks(t, page.Body, "<form")
}

// isEnded fails the test unless both tokens of the client have ended.
func isEnded(t *testing.T, c *servicetest.Client) {
	t.Helper()
	c.Get(servicetest.Plaza).IsError(401, "invalid_token")
	c.Post(servicetest.Plaza, servicetest.EventBody).IsError(401, "invalid_token")
	c.Get(servicetest.RefreshPath).Is(400, servicetest.InvalidRefresh)
	seesNobody(t, c)
}

// lives fails the test unless both tokens of the client work.
func lives(t *testing.T, c *servicetest.Client) {
	t.Helper()
	c.Get(servicetest.Plaza).Has(200)
	c.Get(servicetest.RefreshPath).Is(200, servicetest.Success)
}

// end presses "End this session" for an id.
func end(c *servicetest.Client, id string, with ...servicetest.RequestOption) *servicetest.Response {
	return c.Submit("/sessions/end", url.Values{"id": {id}}.Encode(), with...)
}

// endOthers presses "End all others".
func endOthers(c *servicetest.Client, with ...servicetest.RequestOption) *servicetest.Response {
	return c.Submit("/sessions/end-others", "", with...)
}

// The laptop is in a network of proxies, so that its address comes as one of them may write it: as IPv6.
func TestSessionsPage(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		begin := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
		s.Clock.Freeze(begin)
		laptop := signInFrom(s, "alice", firefox, "::ffff:203.0.113.77")
		s.Clock.Advance(time.Hour)
		phone := signInFrom(s, "alice", edge, "2001:db8:1:2::3")
		s.Clock.Advance(time.Hour)
		signInFrom(s, "bob", curl, "198.51.100.1")
		script := signInFrom(s, "alice", curl, "127.0.0.9")
		s.Clock.Advance(time.Minute)
		laptop.Get(servicetest.RefreshPath).Is(200, servicetest.Success)

		const first, second, third, now = "2030-01-02T03:04:05Z", "2030-01-02T04:04:05Z", "2030-01-02T05:04:05Z", "2030-01-02T05:05:05Z"
		atLaptop := entry{"Firefox on Linux", first, now, "IP address 203.0.113.…", ""}
		atPhone := entry{"Edge on Windows", second, second, "IP address 2001:db8:1:…", ""}
		atScript := entry{"Unknown device", third, third, "The computer of this service", ""}
		for _, at := range []struct {
			from *servicetest.Client
			is   *entry
		}{{laptop, &atLaptop}, {phone, &atPhone}, {script, &atScript}} {
			own, _ := sessionsOf(t, at.from)
			at.is.id = own.id
			servicetest.Is(t, own, *at.is, "the session of this device")
		}
		for from, want := range map[*servicetest.Client][]entry{
			laptop: {atScript, atPhone}, phone: {atLaptop, atScript}, script: {atLaptop, atPhone},
		} {
			_, others := sessionsOf(t, from)
			servicetest.Is(t, others, want, "the others")
			servicetest.Contains(t, from.Get("/sessions").Body, signedInAsAlice)
		}
		for _, c := range []*servicetest.Client{laptop, phone, script} {
			c.Get(servicetest.RefreshPath).Is(200, servicetest.Success) // looking has spent nothing
		}
	}, upTo(3), behindProxy, func(o *servicetest.Options) {
		o.TrustedProxies = append(o.TrustedProxies, netip.MustParsePrefix("203.0.113.0/24"))
	})
}

func TestEndSession(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		s.Clock.Freeze(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)) // a refresh moves when a session was last active
		laptop, phone := signInFrom(s, "alice", firefox, ""), signInFrom(s, "alice", edge, "")
		s.Clock.Advance(time.Minute)
		script := signInFrom(s, "alice", curl, "")
		own, others := sessionsOf(t, laptop)
		if len(others) != 2 || others[1].device != "Edge on Windows" {
			t.Fatalf("%+v", others)
		}
		end(laptop, others[1].id).Is(303, "").HasHeader("Location", "/sessions").HasHeader("Cache-Control", "no-store").SetsNoCookie()
		isEnded(t, phone)
		lives(t, laptop)
		lives(t, script)
		_, left := sessionsOf(t, laptop)
		servicetest.Is(t, left, others[:1], "the others that are left")
		end(laptop, others[1].id).Is(303, "") // again
		hasEvents(t, s, "revoked 1", "signed_out 0")
		servicetest.Contains(t, s.Log.String(), `"session":"`+others[1].id+`","cause":"ended from session `+own.id+`"`)

		// The own one: as sign-out does.
		clearsCookies(t, end(laptop, own.id).Is(303, "").HasHeader("Location", "/sign-in").HasHeader("Cache-Control", "no-store"))
		seesNobody(t, laptop)
		lives(t, script)
		hasEvents(t, s, "revoked 1", "signed_out 1")
	}, upTo(3))
}

// clearsCookies fails the test unless a response has the browser forget both cookies.
func clearsCookies(t *testing.T, res *servicetest.Response) {
	t.Helper()
	for _, name := range []string{"token", "refreshToken"} {
		cookie := res.Cookie(name)
		servicetest.Is(t, cookie.Value, "", "%s", cookie.Raw)
		servicetest.Is(t, cookie.MaxAge, -1, "%s", cookie.Raw)
	}
}

// hasEvents fails the test unless the security events have these numbers, in the log and in the metrics.
func hasEvents(t *testing.T, s *servicetest.Service, want ...string) {
	t.Helper()
	for _, want := range want {
		event, number, _ := strings.Cut(want, " ")
		servicetest.Is(t, fmt.Sprint(strings.Count(s.Log.String(), `"event":"`+event+`"`)), number, "%s in the log", event)
		servicetest.Is(t, fmt.Sprint(servicetest.Metric(t, s, fmt.Sprintf("worldevents_security_events_total{event=%q}", event))), number, "%s counted", event)
	}
}

func TestEndOtherSessions(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		laptop, phone, script := signInFrom(s, "alice", firefox, ""), signInFrom(s, "alice", edge, ""), signInFrom(s, "alice", curl, "")
		bob := signInFrom(s, "bob", curl, "")
		endOthers(laptop).Is(303, "").HasHeader("Location", "/sessions").HasHeader("Cache-Control", "no-store").SetsNoCookie()
		isEnded(t, phone)
		isEnded(t, script)
		lives(t, laptop)
		lives(t, bob)
		_, others := sessionsOf(t, laptop)
		servicetest.Is(t, others, nil, "the others")
		endOthers(laptop).Is(303, "") // there are none any more
		lives(t, laptop)
		hasEvents(t, s, "revoked 2", "signed_out 0")
	}, upTo(3))
}

// A device whose refresh token a newer sign-in has taken is not listed, but its JWT ends with the others.
func TestEndOtherSessionsEndsDisplacedOnes(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		old := signInFrom(s, "alice", firefox, "")
		phone := signInFrom(s, "alice", edge, "")
		old.Get(servicetest.Plaza).Is(200, servicetest.List())
		seesNobody(t, old)
		endOthers(phone).Is(303, "")
		isEnded(t, old)
		lives(t, phone)
	})
}

// Only what is one's own can be ended, and nobody learns what there is.
func TestEndSessionOfOthers(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice, bob := signInFrom(s, "alice", firefox, ""), signInFrom(s, "bob", firefox, "")
		own, _ := sessionsOf(t, alice)
		for _, id := range []string{
			own.id, servicetest.IDOf(1), "", "x", strings.ToUpper(own.id), strings.ReplaceAll(own.id, "-", ""), "{" + own.id + "}", " " + own.id, own.id + "\x00",
			"00000000-0000-0000-0000-000000000000", "' OR 1=1 --", "%",
		} {
			end(bob, id).Is(303, "").HasHeader("Location", "/sessions").SetsNoCookie()
		}
		theirs, _ := sessionsOf(t, bob)
		for _, body := range []string{"", "ID=" + theirs.id, "id=x&id=" + theirs.id} {
			bob.Submit("/sessions/end?id="+theirs.id, body).Is(303, "").SetsNoCookie() // a link ends nothing
		}
		bob.Submit("/sessions/end", "id="+theirs.id+"&x="+strings.Repeat("x", 8<<10)).IsError(400, "validation_failed", "body")
		lives(t, alice)
		lives(t, bob)
		hasEvents(t, s, "revoked 0", "signed_out 0")
	}, upTo(3))
}

// What ends a session needs a current refresh token.
func TestEndSessionNeedsALiveOne(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		for kind, ends := range map[string]bool{
			"both cookies": true, "the refresh token": true, "the JWT": false, "the JWT and a spent refresh token": false,
			"a spent refresh token": false, "an expired JWT": false, "a JWT without a session": false, "a JWT of another key": false,
			"a JWT of another user with the session": false, "both cookies, signed out": false, "refresh tokens that differ": false, "none": false, "garbage": false,
		} {
			s.Run(t, kind, func(t *testing.T) {
				from, phone, tablet := signInFrom(s, "alice", firefox, ""), signInFrom(s, "alice", edge, ""), signInFrom(s, "alice", curl, "")
				at, _ := sessionsOf(t, phone)
				cookies := from.Kind(kind)
				end(s.Client(), at.id, cookies).Is(303, "").HasHeader("Location", "/sessions").SetsNoCookie()
				endOthers(s.Client(), cookies).Is(303, "").HasHeader("Location", "/sessions").SetsNoCookie()
				for _, other := range []*servicetest.Client{phone, tablet} {
					if ends {
						isEnded(t, other)
					} else {
						lives(t, other)
					}
				}
				script := servicetest.Header("Sec-Fetch-Mode", "cors")
				for _, res := range []*servicetest.Response{end(s.Client(), at.id, cookies, script), endOthers(s.Client(), cookies, script)} {
					if res.SetsNoCookie(); ends {
						res.Is(204, "")
					} else {
						res.IsError(401, "invalid_token")
					}
				}
			})
		}
	}, upTo(3))
}

// Whoever has no current refresh token is nobody to the page, and spends and revokes nothing there.
func TestSessionsPageOfNobody(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := signInFrom(s, "alice", firefox, "")
		for _, kind := range []string{
			"none", "a spent refresh token", "the JWT", "the JWT and a spent refresh token", "an unknown refresh token", "garbage", "refresh tokens that differ", "JWTs that differ",
		} {
			cookies := alice.Kind(kind)
			s.Clock.Advance(2 * time.Minute)
			s.Run(t, kind, func(t *testing.T) { seesNobody(t, s.Client(), cookies) })
		}
		lives(t, alice) // the spent one was no sign of theft here
		hasEvents(t, s, "reused 0", "revoked 0")

		// A refresh token is enough, and then nobody can say what its user is called.
		page := s.Client().Get("/sessions", alice.Kind("the refresh token")).SetsNoCookie()
		servicetest.Contains(t, page.Body, "This device")
		servicetest.Lacks(t, page.Body, "alice")
		// The JWT of another user does not give its name to it.
		page = s.Client().Get("/sessions", servicetest.Cookies("token="+s.SignIn("bob").Cookie("token")+"; refreshToken="+alice.Cookie("refreshToken")))
		servicetest.Contains(t, page.Body, "This device")
		servicetest.Lacks(t, page.Body, "bob")
		// An expired one does.
		page = s.Client().Get("/sessions", alice.Kind("an expired JWT and the refresh token"))
		servicetest.Contains(t, page.Body, signedInAsAlice)
		// And with time the session is gone.
		s.Clock.Advance(721 * time.Hour)
		seesNobody(t, alice)
	}, upTo(3))
}

// Neither a refresh token, nor its handle, nor a hash or a JWT is in the page or the log.
func TestSessionsPageHoldsNoSecret(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		laptop, phone := signInFrom(s, "alice", firefox, ""), signInFrom(s, "alice", edge, "")
		page := laptop.Get("/sessions").Body
		_, others := sessionsOf(t, laptop)
		end(laptop, others[0].id).Is(303, "")
		for _, c := range []*servicetest.Client{laptop, phone} {
			token, jwt := c.Cookie("refreshToken"), c.Cookie("token")
			for _, secret := range []string{token[:32], token[32:], jwt[strings.LastIndex(jwt, ".")+1:]} {
				servicetest.Lacks(t, page+s.Log.String(), secret)
			}
		}
		servicetest.Is(t, regexp.MustCompile(`[0-9a-fA-F]{16}`).FindString(page), "", "hexadecimal text on the page")
	}, upTo(3))
}

// A device's label and a username are text, whatever they look like.
func TestSessionsPageEscapes(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		const evil = `"><script>alert(1)</script>`
		c := signInFrom(s, evil, evil, "")
		own, _ := sessionsOf(t, c)
		servicetest.Is(t, own.device, "Unknown device", "the device")
		s.Database.Exec(`UPDATE sessions SET device = '` + evil + `'`)
		own, _ = sessionsOf(t, c)
		servicetest.Is(t, own.device, "&#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;", "the device")
		servicetest.Is(t, strings.Count(c.Get("/sessions").Body, "<script"), 1, "scripts, of which the page has one")
	}, upTo(3))
}
