package oidc

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"
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
	maxUnknown    = 1 << 12 // addresses that are remembered for a token of a key that the provider does not have
)

var (
	errUnknownKey = errors.New("no key of the provider has signed it")
	errNotJudged  = errors.New("the provider's keys could not be had")
	errEncrypts   = errors.New("a key to encrypt with")
)

// keySet are the provider's keys. A token of a key that is not known waits for a fetch that begins after it came, which all share who
// wait. An ID token comes from the provider itself; anybody can send a logout token.
type keySet struct {
	fetch      func(context.Context) ([]jose.JSONWebKey, error)
	algorithms []string
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
	k := &keySet{fetch: fetch, algorithms: algorithms, waiting: ledger.New[string](ledger.Eighth(maxKeyWaiters)), turn: make(chan struct{}, 1)}
	k.unknown, _ = lru.New[string, time.Time](maxUnknown) // fails only for a size below 1
	k.keys.Store(new([]jose.JSONWebKey))
	return k
}

// verify returns the claims of a token (RFC 7515 section 3.1) that an address has sent, or with "" the provider in a response. It returns
// errNotJudged where the keys could not be had.
func (k *keySet) verify(ctx context.Context, address, token string) (claims, error) {
	c, err := k.verifyNow(token)
	if errors.Is(err, errUnknownKey) || address == "" && errors.Is(err, jwt.ErrTokenSignatureInvalid) { // another key of the same kid
		if err := k.await(ctx, address); err != nil {
			return nil, err
		}
		if c, err = k.verifyNow(token); errors.Is(err, errUnknownKey) {
			k.unknown.Add(address, time.Now())
		}
	}
	return c, err
}

// verifyNow is verify with the keys that are there, those of the token's kid if it has one. It returns errUnknownKey if there is none.
func (k *keySet) verifyNow(token string) (claims, error) {
	unnamed := false // any key may have signed it
	parser := jwt.NewParser(jwt.WithValidMethods(k.algorithms), jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding(), jwt.WithJSONNumber())
	_, err := parser.Parse(token, func(t *jwt.Token) (any, error) {
		if t.Header["crit"] != nil {
			return nil, errors.New("crit names what is not understood") // RFC 7515 section 4.1.11
		}
		var usable jwt.VerificationKeySet
		kid, _ := t.Header["kid"].(string)
		unnamed = kid == ""
		for _, key := range *k.keys.Load() {
			if unnamed || key.KeyID == kid {
				usable.Keys = append(usable.Keys, key.Key)
			}
		}
		if usable.Keys == nil {
			return nil, errUnknownKey
		}
		return usable, nil
	})
	if unnamed && errors.Is(err, jwt.ErrTokenSignatureInvalid) {
		err = errUnknownKey
	}
	if err != nil {
		return nil, err
	}
	payload, _ := parser.DecodeSegment(strings.Split(token, ".")[1]) // which has just been decoded
	return parseClaims(payload, false)
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
	for {
		select {
		case k.turn <- struct{}{}:
		case <-wait.Done():
			return fmt.Errorf("%w: %w", errNotJudged, wait.Err())
		}
		pause := time.Until(k.next)
		if !stranger || pause <= 0 || k.begun.After(came) {
			break
		}
		<-k.turn // for an ID token, which waits for nothing but a fetch
		select {
		case <-time.After(pause):
		case <-wait.Done():
			return fmt.Errorf("%w: %w", errNotJudged, wait.Err())
		}
	}
	defer func() { <-k.turn }()
	switch {
	case k.begun.After(came):
		return k.err
	case stranger && came.Sub(made) < retryInterval: // an address that made a key up causes no fetch
		return errNotJudged
	}
	k.begun = time.Now()
	fetching, stop := context.WithTimeout(context.WithoutCancel(ctx), maxKeyWait) // others wait for it, too
	defer stop()
	keys, err := k.fetch(fetching)
	if err != nil {
		k.err = fmt.Errorf("%w: %v", errNotJudged, err)
		k.pause = min(max(2*k.pause, fetchInterval), retryInterval)
	} else {
		k.err, k.pause = nil, 0
		k.keys.Store(&keys)
	}
	k.next = time.Now().Add(max(k.pause, fetchInterval))
	return k.err
}

// keyKinds are the public keys that verify tokens, by kty or by kty and crv: what each consists of, and the algorithms that it verifies (RFC
// 7518 sections 3.1 and 6, RFC 8037 sections 2 and 3.1).
var keyKinds = map[string]struct{ members, algorithms []string }{
	"RSA":         {[]string{"n", "e"}, []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}},
	"EC P-256":    {[]string{"crv", "x", "y"}, []string{"ES256"}},
	"EC P-384":    {[]string{"crv", "x", "y"}, []string{"ES384"}},
	"EC P-521":    {[]string{"crv", "x", "y"}, []string{"ES512"}},
	"OKP Ed25519": {[]string{"crv", "x"}, []string{"EdDSA"}},
}

// fetchKeys returns the provider's keys that can be used with one of the algorithms, and logs why others cannot.
func (p *Provider) fetchKeys(ctx context.Context, address string, algorithms []string) (keys []jose.JSONWebKey, err error) {
	var members []jsontext.Value
	set, err := p.get(ctx, address, nil)
	if err == nil {
		err = json.Unmarshal(set["keys"], &members, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	}
	if err != nil {
		return nil, err
	}
	for _, member := range members {
		if key, err := parseKey(member, algorithms); err == nil {
			keys = append(keys, key)
		} else if err != errEncrypts {
			p.config.Log.Warn("key of the identity provider is not used", "kid", fmt.Sprintf("%.200q", key.KeyID), "reason", fmt.Sprintf("%.200q", err.Error()))
		}
	}
	return keys, nil
}

// parseKey reads the members of a key that a signature needs, and no others. It returns an error, with the kid, for one that cannot be used.
func parseKey(member []byte, algorithms []string) (key jose.JSONWebKey, err error) {
	all, err := parseClaims(member, true)
	if err != nil {
		return key, err
	}
	if all.text("use") == "enc" {
		return key, errEncrypts
	}
	needed := map[string]string{"kty": all.text("kty"), "kid": all.text("kid")}
	key.KeyID = needed["kid"]
	kind, known := keyKinds[needed["kty"]]
	if !known {
		kind = keyKinds[needed["kty"]+" "+all.text("crv")]
	}
	if !slices.ContainsFunc(kind.algorithms, func(name string) bool { return slices.Contains(algorithms, name) }) {
		return key, errors.New("it verifies no algorithm that the provider says it signs with")
	}
	for _, name := range kind.members {
		needed[name] = all.text(name)
	}
	text, _ := json.Marshal(needed) // texts can always be written
	err = key.UnmarshalJSON(text)
	if public, ok := key.Key.(*rsa.PublicKey); ok && public.N.BitLen() < 1024 { // which crypto/rsa refuses
		err = errors.New("it is shorter than 1024 bits")
	}
	return key, err
}
