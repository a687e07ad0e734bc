package oidc

import (
	"context"
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
	"golang.org/x/sync/singleflight"

	"worldevents/server/internal/ledger"
)

const (
	// maxKeyWait bounds the wait of a token with an unknown key, and maxKeyWaiters the waiting logout tokens, an eighth of one address.
	maxKeyWait    = 5 * time.Second
	maxKeyWaiters = 64
	// fetchInterval is the least time between fetches for logout tokens.
	fetchInterval = time.Second
)

var (
	errUnknownKey = errors.New("no key of the provider has signed it")
	errNotJudged  = errors.New("the provider's keys could not be fetched")
)

// keySet has the provider's keys. A token with an unknown key waits for a fetch that begins after it came. ID tokens share one, and logout
// tokens, which anybody can send, another.
type keySet struct {
	fetch      func(context.Context) ([]jose.JSONWebKey, error)
	algorithms []string
	keys       atomic.Pointer[[]jose.JSONWebKey]
	waiting    *ledger.Ledger[string] // logout tokens, by address

	fetches singleflight.Group
	turn    chan struct{} // full during a fetch: keys must not replace those of a later fetch
	next    time.Time     // no fetch for logout tokens before
}

func newKeySet(algorithms []string, fetch func(context.Context) ([]jose.JSONWebKey, error)) *keySet {
	k := &keySet{fetch: fetch, algorithms: algorithms, waiting: ledger.New[string](ledger.Eighth(maxKeyWaiters)), turn: make(chan struct{}, 1)}
	k.keys.Store(new([]jose.JSONWebKey))
	return k
}

// verify returns the claims of a token (RFC 7515 section 3.1) from an address, or "" for the provider. It may return errNotJudged.
func (k *keySet) verify(ctx context.Context, address, token string) (claims, error) {
	c, err := k.verifyNow(token)
	if errors.Is(err, errUnknownKey) || address == "" && errors.Is(err, jwt.ErrTokenSignatureInvalid) { // another key of the same kid
		if err := k.await(ctx, address); err != nil {
			return nil, err
		}
		return k.verifyNow(token)
	}
	return c, err
}

// verifyNow is verify with the present keys, those of the token's kid if it has one. It returns errUnknownKey if there is none.
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
	payload, _ := parser.DecodeSegment(strings.Split(token, ".")[1]) // just decoded
	return parseClaims(payload, false)
}

// await waits for a fetch that begins after the call. It returns errNotJudged without fresh keys.
func (k *keySet) await(ctx context.Context, address string) error {
	who, stranger := "provider", address != ""
	if stranger {
		who = "strangers"
		if !k.waiting.Try(address, 1) {
			return errNotJudged
		}
		defer k.waiting.Release(address, 1)
	}
	ctx, cancel := context.WithTimeout(ctx, maxKeyWait)
	defer cancel()
	fetched := k.fetches.DoChan(who, func() (any, error) {
		if stranger {
			time.Sleep(time.Until(k.next))
		}
		k.turn <- struct{}{}
		defer func() { <-k.turn }()
		if stranger {
			k.next = time.Now().Add(fetchInterval)
		}
		k.fetches.Forget(who) // later callers need a later fetch
		keys, err := k.fetch(context.Background())
		if err != nil {
			return nil, fmt.Errorf("%w: %v", errNotJudged, err)
		}
		k.keys.Store(&keys)
		return nil, nil
	})
	select {
	case result := <-fetched:
		return result.Err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errNotJudged, ctx.Err())
	}
}

// publicKeyAlgorithms sign with a private key (RFC 7518 section 3.1, RFC 8037).
var publicKeyAlgorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// fetchKeys returns the usable keys of the provider for the algorithms, and logs the others.
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
		var key jose.JSONWebKey
		err := key.UnmarshalJSON(member)
		switch {
		case err == nil && key.Use == "enc":
			continue
		case err == nil && !canVerify(key, algorithms):
			err = errors.New("it verifies no algorithm that the provider says it signs with")
		}
		if err != nil {
			named, _ := parseClaims(member, true)
			p.config.Log.Warn("key of the identity provider is not used", "kid", fmt.Sprintf("%.200q", named.text("kid")), "reason", fmt.Sprintf("%.200q", err.Error()))
			continue
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// canVerify reports whether the key is of the type of an algorithm.
func canVerify(key jose.JSONWebKey, algorithms []string) bool {
	return slices.ContainsFunc(algorithms, func(name string) bool {
		return !errors.Is(jwt.GetSigningMethod(name).Verify("", nil, key.Key), jwt.ErrInvalidKeyType)
	})
}
