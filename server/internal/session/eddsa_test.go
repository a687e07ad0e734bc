package session

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

var (
	signing = ed25519.NewKeyFromSeed([]byte("the seed of a key that signs ..."))
	former  = ed25519.NewKeyFromSeed([]byte("the seed of a key of former days"))
)

func publicOf(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// signedBy makes a JWT of any header and claims, signed with a private key.
func signedBy(key ed25519.PrivateKey, header, claims string) string {
	text := encode(header) + "." + encode(claims)
	return text + "." + encode(string(ed25519.Sign(key, []byte(text))))
}

// No JWT chooses its algorithm, and none is verified with a key that it does not name or that is of another algorithm (RFC 8725
// sections 2.1 and 3.1).
func TestAlgorithms(t *testing.T) {
	m := newTestManager(func(o *Options) { o.PrivateKeys = []ed25519.PrivateKey{signing, former} })
	const good = `{"sub":"s","exp":2000000001}`
	kid := func(key []byte) string { return `"kid":"` + KeyID(key) + `"` }
	spki, err := x509.MarshalPKIXPublicKey(publicOf(signing))
	if err != nil {
		t.Fatal(err)
	}
	stranger := ed25519.NewKeyFromSeed([]byte("the seed of a key of nobody here"))
	tampered := signedBy(signing, `{"alg":"EdDSA",`+kid(publicOf(signing))+`}`, good)
	tampered = strings.Replace(tampered, encode(good), encode(`{"sub":"t","exp":2000000001}`), 1)
	for _, test := range []struct {
		name, token string
		want        error
	}{
		{"the key that signs", signedBy(signing, `{"alg":"EdDSA",`+kid(publicOf(signing))+`}`, good), nil},
		{"a former key", signedBy(former, `{"alg":"EdDSA",`+kid(publicOf(former))+`}`, good), nil},
		{"a secret", signed(newKey, `{"alg":"HS256",`+kid(newKey)+`}`, good), nil},
		{"a secret without kid", signed(oldKey, `{"alg":"HS256"}`, good), nil},

		{"a private key without kid", signedBy(signing, `{"alg":"EdDSA"}`, good), ErrInvalid},
		{"kid null", signedBy(signing, `{"alg":"EdDSA","kid":null}`, good), ErrInvalid},
		{"kid empty", signedBy(signing, `{"alg":"EdDSA","kid":""}`, good), ErrInvalid},
		{"kid a number", signedBy(signing, `{"alg":"EdDSA","kid":1}`, good), ErrInvalid},
		{"kid of another key", signedBy(signing, `{"alg":"EdDSA",`+kid(publicOf(former))+`}`, good), ErrInvalid},
		{"kid of a secret", signedBy(signing, `{"alg":"EdDSA",`+kid(newKey)+`}`, good), ErrInvalid},
		{"an unknown key", signedBy(stranger, `{"alg":"EdDSA",`+kid(publicOf(stranger))+`}`, good), ErrInvalid},
		{"an unknown key with a kid of ours", signedBy(stranger, `{"alg":"EdDSA",`+kid(publicOf(signing))+`}`, good), ErrInvalid},
		{"a key that the header brings", signedBy(stranger, `{"alg":"EdDSA","jwk":{"kty":"OKP","crv":"Ed25519","x":"`+encode(string(publicOf(stranger)))+`"}}`, good), ErrInvalid},
		{"the public key as a secret", signed(publicOf(signing), `{"alg":"HS256",`+kid(publicOf(signing))+`}`, good), ErrInvalid},
		{"the public key as a secret, no kid", signed(publicOf(signing), `{"alg":"HS256"}`, good), ErrInvalid},
		{"the public key in DER as a secret", signed(spki, `{"alg":"HS256",`+kid(publicOf(signing))+`}`, good), ErrInvalid},
		{"a secret, called EdDSA", signed(newKey, `{"alg":"EdDSA",`+kid(newKey)+`}`, good), ErrInvalid},
		{"a secret with the kid of a private key", signed(newKey, `{"alg":"HS256",`+kid(publicOf(signing))+`}`, good), ErrInvalid},
		{"Ed25519", signedBy(signing, `{"alg":"Ed25519",`+kid(publicOf(signing))+`}`, good), ErrInvalid},
		{"eddsa", signedBy(signing, `{"alg":"eddsa",`+kid(publicOf(signing))+`}`, good), ErrInvalid},
		{"none", encode(`{"alg":"none",`+kid(publicOf(signing))+`}`) + "." + encode(good) + ".", ErrInvalid},
		{"no alg", signedBy(signing, `{`+kid(publicOf(signing))+`}`, good), ErrInvalid},
		{"no signature", strings.TrimRight(signedBy(signing, `{"alg":"EdDSA",`+kid(publicOf(signing))+`}`, good), "-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"), ErrInvalid},
		{"other claims", tampered, ErrInvalid},
		{"crit", signedBy(signing, `{"alg":"EdDSA","crit":["x"],"x":1,`+kid(publicOf(signing))+`}`, good), ErrInvalid},
		{"expired", signedBy(signing, `{"alg":"EdDSA",`+kid(publicOf(signing))+`}`, `{"sub":"s","exp":1}`), ErrExpired},
	} {
		t.Run(test.name, func(t *testing.T) {
			for range 2 { // the second time from the cache
				if _, err := m.Verify(test.token); err != test.want {
					t.Error(err)
				}
			}
		})
	}
}

// The first private key signs as long as there is one, and secrets and public keys verify beside it.
func TestSetEd25519Keys(t *testing.T) {
	m := newTestManager()
	byName := func() (issued string, kid string) {
		t.Helper()
		issued = m.Issue(alice, NewRefreshToken()).Token
		if _, err := m.Verify(issued); err != nil {
			t.Error(err)
		}
		var header struct{ Alg, Kid string }
		part, _, _ := strings.Cut(issued, ".")
		text, err := base64.RawURLEncoding.DecodeString(part)
		if err == nil {
			err = json.Unmarshal(text, &header)
		}
		if err != nil {
			t.Fatal(err)
		}
		return issued, header.Alg + " " + header.Kid
	}
	var tokens []string
	for _, test := range []struct {
		keys   []ed25519.PrivateKey
		public []ed25519.PublicKey
		signs  string
		valid  int // how many of the former JWTs are still valid
	}{
		{nil, nil, "HS256 " + KeyID(newKey), 0},
		{nil, []ed25519.PublicKey{publicOf(former)}, "HS256 " + KeyID(newKey), 1},
		{[]ed25519.PrivateKey{former}, nil, "EdDSA " + KeyID(publicOf(former)), 2},
		{[]ed25519.PrivateKey{former, signing}, nil, "EdDSA " + KeyID(publicOf(former)), 3},
		{[]ed25519.PrivateKey{signing, former}, nil, "EdDSA " + KeyID(publicOf(signing)), 4},
		{[]ed25519.PrivateKey{signing}, []ed25519.PublicKey{publicOf(former)}, "EdDSA " + KeyID(publicOf(signing)), 5},
		{[]ed25519.PrivateKey{signing}, nil, "EdDSA " + KeyID(publicOf(signing)), 4},
		{nil, []ed25519.PublicKey{publicOf(signing), publicOf(former)}, "HS256 " + KeyID(newKey), 7},
		{nil, nil, "HS256 " + KeyID(newKey), 3},
	} {
		m.SetEd25519Keys(test.keys, test.public)
		m.SetSecrets([][]byte{newKey, oldKey})
		valid := 0
		for _, token := range tokens {
			if _, err := m.Verify(token); err == nil {
				valid++
			}
		}
		issued, signs := byName()
		if signs != test.signs || valid != test.valid || len(m.PublicKeys()) != len(test.keys)+len(test.public) {
			t.Errorf("%d keys: signs %s, want %s; %d valid, want %d; %d public", len(test.keys), signs, test.signs, valid, test.valid, len(m.PublicKeys()))
		}
		tokens = append(tokens, issued)
	}
}
