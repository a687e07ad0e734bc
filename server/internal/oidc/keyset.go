package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	lru "github.com/hashicorp/golang-lru/v2"

	"worldevents/server/internal/ledger"
)

const (
	// maxKeyWait is how long a token of an unknown key waits for the provider's keys, and maxKeyWaiters how many logout tokens do, an
	// eighth of them of one address.
	maxKeyWait    = 5 * time.Second
	maxKeyWaiters = 64
	// fetchInterval is the time between two fetches for logout tokens. After a failure it doubles, up to retryInterval.
	fetchInterval = time.Second
	// maxUnknown is how many addresses are remembered that have sent a token of a key that the provider does not have.
	maxUnknown = 1 << 12
)

var (
	errUnknownKey = errors.New("no key of the provider has signed it")
	errNotJudged  = errors.New("the provider's keys could not be had")
)

// keySet are the provider's keys. A token of a key that is not known waits for a fetch that begins after it came, which all share who
// wait. An ID token comes from the provider itself; anybody can send a logout token.
type keySet struct {
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

func newKeySet(algorithms []string, fetch func(context.Context) ([]jose.JSONWebKey, error)) *keySet {
	k := &keySet{fetch: fetch, waiting: ledger.New[string](ledger.Eighth(maxKeyWaiters)), turn: make(chan struct{}, 1)}
	k.unknown, _ = lru.New[string, time.Time](maxUnknown) // fails only for a size below 1
	k.keys.Store(new([]jose.JSONWebKey))
	for _, algorithm := range algorithms {
		k.algorithms = append(k.algorithms, jose.SignatureAlgorithm(algorithm))
	}
	return k
}

// verify returns the claims of a token in the compact serialization (RFC 7515 section 3.1) that an address has sent, or with "" the
// provider in a response. It returns errNotJudged where the keys could not be had.
func (k *keySet) verify(ctx context.Context, address, token string) (claims, error) {
	signed, err := jose.ParseSignedCompact(token, k.algorithms)
	if err != nil {
		return nil, err
	}
	payload, err := verifyWith(*k.keys.Load(), signed)
	if err == errUnknownKey {
		if err := k.await(ctx, address); err != nil {
			return nil, err
		}
		if payload, err = verifyWith(*k.keys.Load(), signed); err == errUnknownKey {
			k.unknown.Add(address, time.Now())
		}
	}
	if err != nil {
		return nil, err
	}
	return parseClaims(payload)
}

// verifyWith returns what was signed with one of the keys, with one of its kid if it has a kid. It returns errUnknownKey if there is none.
func verifyWith(keys []jose.JSONWebKey, signed *jose.JSONWebSignature) ([]byte, error) {
	id, failure := signed.Signatures[0].Header.KeyID, errUnknownKey
	for _, key := range keys {
		if id != "" && key.KeyID != id {
			continue
		}
		payload, err := signed.Verify(key)
		if err == nil {
			return payload, nil
		}
		if id != "" {
			failure = err
		}
	}
	return nil, failure
}

// await waits for a fetch that begins after the call, and returns errNotJudged unless the keys are there. One of those who wait has the
// turn, and fetches for all of them.
func (k *keySet) await(ctx context.Context, address string) error {
	stranger := address != ""
	if stranger {
		if !k.waiting.Try(address, 1) {
			return errNotJudged
		}
		defer k.waiting.Release(address, 1)
	}
	came := time.Now()
	made, _ := k.unknown.Peek(address)
	wait, cancel := context.WithTimeout(ctx, maxKeyWait)
	defer cancel()
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-wait.Done():
		return errNotJudged
	}
	switch {
	case k.begun.After(came):
		return k.err
	case stranger && came.Sub(made) < retryInterval: // an address that made a key up causes no fetch
		return errNotJudged
	case stranger:
		select {
		case <-time.After(time.Until(k.next)):
		case <-wait.Done():
			return errNotJudged
		}
	}
	k.begun = time.Now()
	fetching, stop := context.WithTimeout(context.WithoutCancel(ctx), maxKeyWait) // others wait for it, too
	defer stop()
	keys, err := k.fetch(fetching)
	if k.err = nil; err == nil {
		k.keys.Store(&keys)
		k.pause = 0
	} else {
		k.err = fmt.Errorf("%w: %w", errNotJudged, err)
		k.pause = min(max(2*k.pause, fetchInterval), retryInterval)
	}
	k.next = time.Now().Add(max(k.pause, fetchInterval))
	return k.err
}

// fetchKeys returns the provider's keys that can be used with one of the algorithms, and logs why others cannot.
func (p *Provider) fetchKeys(ctx context.Context, address string, algorithms []string) (keys []jose.JSONWebKey, err error) {
	text, _, err := p.get(ctx, address, nil)
	if err != nil {
		return nil, err
	}
	set, err := parseClaims(text)
	if err != nil {
		return nil, err
	}
	for _, member := range set.list("keys") {
		key, err := parseKey(member, algorithms)
		if err != nil {
			p.config.Log.Warn("key of the identity provider is not used", "kid", key.KeyID, "reason", fmt.Sprintf("%.200q", err.Error()))
			continue
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// parseKey reads the members of a key that a signature needs (RFC 7518 section 6, RFC 8037 section 2), and no others. It returns an
// error for a key that can be used with none of the algorithms.
func parseKey(member []byte, algorithms []string) (key jose.JSONWebKey, err error) {
	all, err := parseClaims(member)
	if err != nil {
		return key, err
	}
	needed := map[string]string{"kty": all.text("kty"), "kid": all.text("kid")}
	for _, name := range map[string][]string{"RSA": {"n", "e"}, "EC": {"crv", "x", "y"}, "OKP": {"crv", "x"}}[needed["kty"]] {
		needed[name] = all.text(name)
	}
	text, err := json.Marshal(needed)
	if err == nil {
		err = key.UnmarshalJSON(text)
	}
	if use := all.text("use"); err == nil && use != "" && use != "sig" {
		err = errors.New("its use is " + use)
	}
	if err == nil && !slices.ContainsFunc(algorithms, func(algorithm string) bool { return fits(key.Key, algorithm) }) {
		err = errors.New("of no algorithm that the provider says it signs with")
	}
	key.KeyID = needed["kid"]
	return key, err
}

// fits reports whether a public key verifies signatures of an algorithm of isUsable (RFC 7518 section 3.1, RFC 8037 section 3.1).
func fits(key any, algorithm string) bool {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return algorithm[0] != 'E'
	case *ecdsa.PublicKey:
		return algorithm == map[int]string{256: "ES256", 384: "ES384", 521: "ES512"}[key.Params().BitSize]
	case ed25519.PublicKey:
		return algorithm == "EdDSA"
	}
	return false
}
