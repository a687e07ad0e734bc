package session

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
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

// newTestManager returns a manager with two keys, whose clock stands at 2,000,000,000 seconds.
func newTestManager(changes ...func(*Options)) *Manager {
	now := func() time.Time { return time.Unix(2_000_000_000, 0) }
	o := Options{Secrets: [][]byte{newKey, oldKey}, RefreshTTL: 720 * time.Hour, CookiePath: "/", Now: now}
	for _, change := range changes {
		change(&o)
	}
	return New(o)
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

// The cache has the tokens that were used last, and no more of them than it may. All are right whenever they come.
func TestCacheEvicts(t *testing.T) {
	m := newTestManager()
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

func FuzzVerify(f *testing.F) {
	m := newTestManager()
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

func lines(s string) http.Header { return http.Header{"Cookie": strings.Split(s, "\n")} }
