package oidc

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
)

// publisher is a provider that publishes keys, and replaces or withholds them.
type publisher struct {
	mu      sync.Mutex
	keys    []jose.JSONWebKey
	err     error
	fetches []time.Duration // when they began
	begun   time.Time
	took    time.Duration // by each
}

func (p *publisher) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	p.mu.Lock()
	p.fetches = append(p.fetches, time.Since(p.begun))
	keys, err := slices.Clone(p.keys), p.err
	p.mu.Unlock()
	select {
	case <-time.After(p.took):
		return keys, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// rotate publishes another key alone, and returns a token that it has signed.
func (p *publisher) rotate(t *testing.T, kid string) (token string) {
	public, token := newToken(t, kid)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys, p.err = []jose.JSONWebKey{public}, nil
	return token
}

// newToken returns a new key and a token that it has signed.
func newToken(t *testing.T, kid string) (public jose.JSONWebKey, token string) {
	t.Helper()
	verifies, signs, _ := ed25519.GenerateKey(nil)
	method := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{})
	method.Header["kid"] = kid
	token, err := method.SignedString(signs)
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: verifies, KeyID: kid}, token
}

func keysOf(p *publisher) *keySet {
	p.begun = time.Now()
	return newKeySet([]string{"EdDSA"}, p.fetch)
}

// Whatever tokens of made-up keys a stranger sends, the token of a new key counts within a second, and nobody has keys fetched more often
// than once in that time.
func TestStrangersKeepNoLogoutOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{took: 100 * time.Millisecond}
		p.rotate(t, "old")
		k := keysOf(p)
		ctx, cancel := context.WithCancel(t.Context())
		var strangers sync.WaitGroup
		for i := range 20 { // each at an address of its own
			strangers.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					_, token := newToken(t, fmt.Sprint("made up ", n))
					if _, err := k.verify(ctx, fmt.Sprint("stranger ", i), token); !errors.Is(err, errUnknownKey) && !errors.Is(err, errNotJudged) {
						t.Error(err)
					}
					time.Sleep(200 * time.Millisecond)
				}
			})
		}
		for n := range 20 {
			time.Sleep(3100 * time.Millisecond)
			token := p.rotate(t, fmt.Sprint("new ", n))
			begun := time.Now()
			if _, err := k.verify(ctx, "provider", token); err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took > fetchInterval+2*p.took {
				t.Errorf("after %v", took)
			}
		}
		cancel()
		strangers.Wait()
		for i, at := range p.fetches[1:] {
			if at-p.fetches[i] < fetchInterval {
				t.Errorf("fetched at %v and %v", p.fetches[i], at)
			}
		}
	})
}

// A token waits for keys that were asked for after it came: those that are on their way may be of before.
func TestKeysOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{took: time.Second}
		p.rotate(t, "old")
		k := keysOf(p)
		_, another := newToken(t, "another")
		go k.verify(t.Context(), "stranger", another)
		time.Sleep(p.took / 2)
		if _, err := k.verify(t.Context(), "provider", p.rotate(t, "new")); err != nil {
			t.Error(err)
		}
	})
}

// While the keys cannot be had no token is judged, and the provider is asked once a second.
func TestKeysAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(publisher)
		token := p.rotate(t, "k")
		p.err = errors.New("away")
		k := keysOf(p)
		for range 5 {
			if _, err := k.verify(t.Context(), "provider", token); !errors.Is(err, errNotJudged) {
				t.Error(err)
			}
		}
		if want := []time.Duration{0, fetchInterval, 2 * fetchInterval, 3 * fetchInterval, 4 * fetchInterval}; !slices.Equal(p.fetches, want) {
			t.Errorf("fetched after %v, want %v", p.fetches, want)
		}
		p.err = nil
		if _, err := k.verify(t.Context(), "provider", token); err != nil {
			t.Error(err)
		}
	})
}

// A wrong signature of a known key causes no fetch.
func TestWhoCausesFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(publisher)
		right := p.rotate(t, "k")
		k := keysOf(p)
		_, forged := newToken(t, "k")
		_, another := newToken(t, "another")
		for _, test := range []struct {
			token   string
			want    error
			fetches int
		}{{right, nil, 1}, {forged, jwt.ErrTokenSignatureInvalid, 1}, {another, errUnknownKey, 2}, {right, nil, 2}} {
			if _, err := k.verify(t.Context(), "a", test.token); !errors.Is(err, test.want) || len(p.fetches) != test.fetches {
				t.Errorf("%v after %d fetches, want %v after %d", err, len(p.fetches), test.want, test.fetches)
			}
		}
	})
}

// An eighth of those who wait may be one address's, and nobody waits for longer than maxKeyWait.
func TestKeyWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{took: time.Minute}
		token := p.rotate(t, "k")
		k := keysOf(p)
		var all sync.WaitGroup
		for address := range 3 {
			for range 20 {
				all.Go(func() { k.verify(t.Context(), fmt.Sprint(address), token) })
			}
		}
		synctest.Wait()
		if n := k.waiting.Held(); n != 24 {
			t.Errorf("%d wait", n)
		}
		begun := time.Now()
		all.Wait()
		if took := time.Since(begun); took != maxKeyWait {
			t.Errorf("they waited for %v", took)
		}
		time.Sleep(2 * p.took) // until the fetches end
	})
}
