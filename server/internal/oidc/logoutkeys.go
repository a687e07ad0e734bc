package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	lru "github.com/hashicorp/golang-lru/v2"

	"worldevents/server/internal/ledger"
)

const (
	// maxKeyWait is how long a logout token of an unknown key waits for the provider's keys, and maxKeyWaiters how many do, an eighth of
	// them of one address.
	maxKeyWait    = 5 * time.Second
	maxKeyWaiters = 64
	// fetchInterval is the time between two fetches. After a failure it is twice as long as before, up to retryInterval.
	fetchInterval = time.Second
	// maxUnknown is how many addresses are remembered that have sent a token of a key that the provider does not have.
	maxUnknown = 1 << 12
)

var (
	errUnknownKey = errors.New("no key of the provider has signed it")
	errNotJudged  = errors.New("the provider's keys could not be had")
)

// logoutKeys are the provider's keys for logout tokens. Anybody can send such a token. One of a key that is not known waits for a fetch that
// begins after it came, which all share who wait.
type logoutKeys struct {
	fetch      func() ([]jose.JSONWebKey, error)
	algorithms []jose.SignatureAlgorithm
	waiting    *ledger.Ledger[string]        // by address
	unknown    *lru.Cache[string, time.Time] // when an address has sent a token whose key was in no fresh set

	mu       sync.Mutex
	keys     []jose.JSONWebKey
	next     *keyFetch // which is yet to begin; nil while nobody waits for it
	running  bool      // a goroutine fetches, or rests after that
	failures int       // in a row
}

// keyFetch is a fetch for all who came before it began.
type keyFetch struct {
	done chan struct{}
	keys []jose.JSONWebKey
	err  error
}

func newLogoutKeys(algorithms []string, fetch func() ([]jose.JSONWebKey, error)) *logoutKeys {
	k := &logoutKeys{fetch: fetch, waiting: ledger.New[string](ledger.Eighth(maxKeyWaiters))}
	k.unknown, _ = lru.New[string, time.Time](maxUnknown) // fails only for a size below 1
	for _, algorithm := range algorithms {
		k.algorithms = append(k.algorithms, jose.SignatureAlgorithm(algorithm))
	}
	return k
}

// verify returns what was signed, of a token in the compact serialization (RFC 7515 section 3.1) that an address has sent. It returns
// errNotJudged where the keys could not be had.
func (k *logoutKeys) verify(ctx context.Context, address, token string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(token, k.algorithms)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	keys := k.keys
	k.mu.Unlock()
	payload, err := verifyWith(keys, signed)
	if err != errUnknownKey {
		return payload, err
	}
	if keys, err = k.await(ctx, address); err != nil {
		return nil, err
	}
	if payload, err = verifyWith(keys, signed); err == errUnknownKey {
		k.unknown.Add(address, time.Now())
	}
	return payload, err
}

// verifyWith returns what was signed with one of the keys, with that of its kid if it has one. It returns errUnknownKey if there is none.
func verifyWith(keys []jose.JSONWebKey, signed *jose.JSONWebSignature) ([]byte, error) {
	id := signed.Signatures[0].Header.KeyID
	for _, key := range keys {
		if id != "" && key.KeyID != id {
			continue
		}
		if payload, err := signed.Verify(key); err == nil || id != "" {
			return payload, err
		}
	}
	return nil, errUnknownKey
}

// await returns the keys of a fetch that begins after the call.
func (k *logoutKeys) await(ctx context.Context, address string) ([]jose.JSONWebKey, error) {
	if !k.waiting.Try(address, 1) {
		return nil, errNotJudged
	}
	defer k.waiting.Release(address, 1)
	made, _ := k.unknown.Peek(address)
	k.mu.Lock()
	if k.next == nil && time.Since(made) >= retryInterval { // an address that made a key up causes no fetch
		k.next = &keyFetch{done: make(chan struct{})}
		if !k.running {
			k.running = true
			go k.run()
		}
	}
	next := k.next
	k.mu.Unlock()
	if next == nil {
		return nil, errNotJudged
	}
	ctx, cancel := context.WithTimeout(ctx, maxKeyWait)
	defer cancel()
	select {
	case <-next.done:
		return next.keys, next.err
	case <-ctx.Done():
		return nil, errNotJudged
	}
}

// run fetches for as long as somebody waits, with rests between.
func (k *logoutKeys) run() {
	for {
		k.mu.Lock()
		f := k.next
		k.next, k.running = nil, f != nil
		k.mu.Unlock()
		if f == nil {
			return
		}
		f.keys, f.err = k.fetch()
		rest := fetchInterval
		k.mu.Lock()
		if f.err == nil {
			k.keys, k.failures = f.keys, 0
		} else {
			f.err = errNotJudged
			rest = min(fetchInterval<<min(k.failures, 4), retryInterval)
			k.failures++
		}
		k.mu.Unlock()
		close(f.done)
		time.Sleep(rest)
	}
}

// fetchKeys returns the provider's keys that can be used.
func (p *Provider) fetchKeys(ctx context.Context, address string) (keys []jose.JSONWebKey, err error) {
	text, _, err := p.get(ctx, address, nil)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, err
	}
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(raw) == nil {
			keys = append(keys, key)
		}
	}
	return keys, nil
}
