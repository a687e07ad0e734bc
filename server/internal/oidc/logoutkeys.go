package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
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
	// fetchInterval is the time between two fetches. After a failure it doubles, up to retryInterval.
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
	fetch      func(context.Context) ([]jose.JSONWebKey, error)
	algorithms []jose.SignatureAlgorithm
	waiting    *ledger.Ledger[string]        // by address
	unknown    *lru.Cache[string, time.Time] // when an address has sent a token whose key was in no fresh set
	keys       atomic.Pointer[[]jose.JSONWebKey]

	turn  chan struct{} // is full while somebody has the turn, who alone looks at what follows
	begun time.Time     // the last fetch
	err   error         // of that fetch
	pause time.Duration // after it, if it has failed
	next  time.Time     // before which the next one does not begin
}

func newLogoutKeys(algorithms []string, fetch func(context.Context) ([]jose.JSONWebKey, error)) *logoutKeys {
	k := &logoutKeys{fetch: fetch, waiting: ledger.New[string](ledger.Eighth(maxKeyWaiters)), turn: make(chan struct{}, 1)}
	k.unknown, _ = lru.New[string, time.Time](maxUnknown) // fails only for a size below 1
	k.keys.Store(new([]jose.JSONWebKey))
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
	payload, err := verifyWith(*k.keys.Load(), signed)
	if err != errUnknownKey {
		return payload, err
	}
	if !k.await(ctx, address) {
		return nil, errNotJudged
	}
	if payload, err = verifyWith(*k.keys.Load(), signed); err == errUnknownKey {
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

// await waits for a fetch that begins after the call, and reports whether the keys are there. One of those who wait has the turn, and fetches
// for all of them.
func (k *logoutKeys) await(ctx context.Context, address string) bool {
	if !k.waiting.Try(address, 1) {
		return false
	}
	defer k.waiting.Release(address, 1)
	came := time.Now()
	made, _ := k.unknown.Peek(address)
	wait, cancel := context.WithTimeout(ctx, maxKeyWait)
	defer cancel()
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-wait.Done():
		return false
	}
	switch {
	case k.begun.After(came):
		return k.err == nil
	case came.Sub(made) < retryInterval: // an address that made a key up causes no fetch
		return false
	}
	select {
	case <-time.After(time.Until(k.next)):
	case <-wait.Done():
		return false
	}
	k.begun = time.Now()
	fetching, stop := context.WithTimeout(context.WithoutCancel(ctx), maxKeyWait) // others wait for it, too
	defer stop()
	keys, err := k.fetch(fetching)
	if k.err = err; err == nil {
		k.keys.Store(&keys)
		k.pause = 0
	} else {
		k.pause = min(max(2*k.pause, fetchInterval), retryInterval)
	}
	k.next = time.Now().Add(max(k.pause, fetchInterval))
	return err == nil
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
