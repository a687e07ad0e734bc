package session

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"worldevents/models"
)

var (
	newKey = []byte("0123456789abcdefghijklmnopqrstuvwxyz")
	oldKey = []byte("another key, of more than thirty-two bytes")
	alice  = models.Grant{Identity: models.Identity{ID: models.ID{15: 1}, Username: "alice"}, SessionID: models.ID{15: 2}}
)

// clock is set by tests.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

// newTestManager returns a manager with two keys, and its clock, which stands at 2,000,000,000 seconds.
func newTestManager(changes ...func(*Options)) (*Manager, *clock) {
	c := &clock{time.Unix(2_000_000_000, 0)}
	o := Options{Secrets: [][]byte{newKey, oldKey}, RefreshTTL: 720 * time.Hour, CookiePath: "/", Now: c.now}
	for _, change := range changes {
		change(&o)
	}
	return New(o), c
}

// signed makes a JWT of any header and claims.
func signed(secret []byte, header, claims string) string {
	text := encode(header) + "." + encode(claims)
	return text + "." + encode(signature(secret, text))
}

func signature(secret []byte, text string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	return string(mac.Sum(nil))
}

func encode(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// All refresh tokens of a session begin with its handle, and nothing else of them repeats.
func TestRefreshTokens(t *testing.T) {
	first := NewRefreshToken()
	if again, ok := parseRefreshToken(first.text); !ok || again != first {
		t.Errorf("%q is not known again", first.text)
	}
	second := first.Next()
	again, ok := parseRefreshToken(second.text)
	if !ok || again != second || second.Handle != first.Handle || second.Token == first.Token {
		t.Errorf("%q does not follow %q", second.text, first.text)
	}
	if first.text[:32] != second.text[:32] || first.text[32:64] == second.text[32:64] || first.text[96:] == second.text[96:] {
		t.Errorf("%q after %q: want the handle, then 48 fresh bytes", second.text, first.text)
	}
	if other := NewRefreshToken(); other.text[:32] == first.text[:32] {
		t.Error("two sessions have one handle")
	}
	if printed := fmt.Sprint(first, &first, []any{first}); strings.Contains(printed, first.text[:32]) {
		t.Errorf("printed as %s", printed)
	}
}

// The cache has the tokens that were used last, and no more of them than it may. All are right whenever they come.
func TestCacheEvicts(t *testing.T) {
	m, _ := newTestManager()
	verify := func() (token string) {
		token = m.Issue(alice, RefreshToken{}).Token // jti makes each token another one
		verifies(t, m, token)
		return token
	}
	kept, forgotten := verify(), verify()
	for range maxVerified - 2 {
		verify()
	}
	verifies(t, m, kept)
	verify()
	cache := m.keyring.Load().verified
	if n := cache.Len(); n != maxVerified || !cache.Contains(sha256.Sum256([]byte(kept))) || cache.Contains(sha256.Sum256([]byte(forgotten))) {
		t.Errorf("the cache has %d tokens, of %d", n, maxVerified)
	}
	verifies(t, m, forgotten)
}

func verifies(t *testing.T, m *Manager, token string) {
	t.Helper()
	if user, err := m.Verify(token); err != nil || user.Token != token || user.Username != alice.Username {
		t.Fatalf("%+v, %v", user, err)
	}
}

func TestCacheKeepsOnlyTokensThatAreRight(t *testing.T) {
	m, _ := newTestManager()
	forged := signed([]byte("a key that nobody knows"), `{"alg":"HS256"}`, `{"sub":"s","exp":4102444800}`)
	for range 2 {
		if _, err := m.Verify(forged); err != ErrInvalid {
			t.Error(err)
		}
	}
	if m.keyring.Load().verified.Len() > 0 {
		t.Error("the forged token is in the cache")
	}
}

// Dates are checked on each use of a token that is in the cache.
func TestCacheChecksDates(t *testing.T) {
	m, c := newTestManager()
	begin := c.Time
	token := m.Issue(alice, RefreshToken{}).Token
	for _, test := range []struct {
		name string
		now  time.Time
		want error
	}{
		{"at once", begin, nil},
		{"just before exp", begin.Add(15*time.Minute - 1), nil},
		{"at exp", begin.Add(15 * time.Minute), ErrExpired},
		{"clock set back", begin, nil},
		{"iat 60 s ahead", begin.Add(-time.Minute), nil},
		{"iat more than that ahead", begin.Add(-time.Minute - 1), ErrInvalid},
		{"clock set forth", begin, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			c.Time = test.now
			if _, err := m.Verify(token); err != test.want {
				t.Error(err)
			}
		})
	}
}

func FuzzVerify(f *testing.F) {
	m, _ := newTestManager()
	parts := strings.Split(m.Issue(alice, RefreshToken{}).Token, ".")
	f.Add(parts[0], parts[1], parts[2])
	f.Add(encode(`{"alg":"HS256"}`), encode(`{"sub":"s","exp":4102444800}`), "")
	f.Add(encode(`{"alg":"none"}`), parts[1], "")
	f.Add(encode(`{"alg":"HS256","crit":["x"],"kid":7}`), encode(`{"sub":"s","exp":1e400,"nbf":-1e300,"aud":[1]}`), parts[2])
	f.Add(encode(`{"alg":"HS512"}`), encode(`null`), parts[2])
	f.Add(encode(`{"alg":"HS256"}`), encode(`{"sub":"\ud800","exp":253402300799.999,"iat":0.5}`), "=")
	f.Fuzz(func(t *testing.T, header, claims, sum string) {
		text := header + "." + claims
		for _, token := range []string{text + "." + sum, text + "." + encode(signature(newKey, text)), signed(newKey, header, claims)} {
			user, err := m.Verify(token)
			if err != nil && !errors.Is(err, ErrExpired) {
				if user != (Session{}) {
					t.Fatalf("%v with %+v", err, user)
				}
				continue
			}
			last := strings.LastIndexByte(token, '.')
			if s := token[last+1:]; s != encode(signature(newKey, token[:last])) && s != encode(signature(oldKey, token[:last])) {
				t.Fatalf("%q is not signed", token)
			}
			if year := user.Expires.Year(); user.UserID == "" || year < 1970 || year > 9999 {
				t.Fatalf("%q is %+v", token, user)
			}
		}
	})
}

// BenchmarkVerifyJWT verifies a JWT that has not been seen before, and one that has.
func BenchmarkVerifyJWT(b *testing.B) {
	m, _ := newTestManager(func(o *Options) { o.Secrets = o.Secrets[:1] })
	token := m.Issue(alice, RefreshToken{}).Token
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := m.keyring.Load().parse(token); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("again", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := m.Verify(token); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func lines(s string) http.Header { return http.Header{"Cookie": strings.Split(s, "\n")} }
