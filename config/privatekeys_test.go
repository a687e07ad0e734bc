package config_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"testing"

	"worldevents/config"
)

// pemOf is a private key as openssl genpkey writes it.
func pemOf(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	noError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// publicPEM is the public half of a private key as openssl pkey -pubout writes it.
func publicPEM(t *testing.T, key ed25519.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	noError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func TestPrivateKeys(t *testing.T) {
	first := ed25519.NewKeyFromSeed([]byte("the seed of a key that signs ..."))
	second := ed25519.NewKeyFromSeed([]byte("the seed of a key of former days"))
	elliptic, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	noError(t, err)
	one, two := pemOf(t, first), pemOf(t, second)
	for text, want := range map[string][]ed25519.PrivateKey{
		one: {first}, strings.ReplaceAll(one, "\n", "\r\n"): {first}, two + "\n" + one + "\n\n": {second, first}, strings.TrimSuffix(one, "\n"): {first},
	} {
		c := mustLoad(t, development+"\nJWT_PRIVATE_KEY_FILE="+write(t, text))
		if len(c.Ed25519Keys.Private) != len(want) || c.Ed25519Keys.Public != nil || len(c.Keys) != 1 {
			t.Fatalf("%d private keys, want %d", len(c.Ed25519Keys.Private), len(want))
		}
		for i := range want {
			if !c.Ed25519Keys.Private[i].Equal(want[i]) {
				t.Errorf("key %d of %d is another", i+1, len(want))
			}
		}
	}
	public := publicPEM(t, second)
	c := mustLoad(t, development+"\nJWT_PRIVATE_KEY_FILE="+write(t, public+one))
	if keys := c.Ed25519Keys; len(keys.Private) != 1 || !keys.Private[0].Equal(first) || len(keys.Public) != 1 || !keys.Public[0].Equal(second.Public()) {
		t.Errorf("%d private keys and %d public ones", len(keys.Private), len(keys.Public))
	}
	const nothingElse = "must have private keys in PKCS #8, not encrypted, or public keys, all in PEM, and nothing else: make one with openssl genpkey -algorithm ed25519"
	const twice = "has a key twice, or a private key and its public half"
	body := strings.Split(one, "\n")[1]
	for text, says := range map[string]string{
		"":              "is empty",
		" \n\n":         "is empty",
		body:            nothingElse,
		one + body:      nothingElse,
		one + "hunter2": nothingElse,
		strings.ReplaceAll(one, "PRIVATE KEY", "ENCRYPTED PRIVATE KEY"): nothingElse,
		strings.ReplaceAll(one, "PRIVATE KEY", "PUBLIC KEY"):            "key 1 is not of Ed25519: make one with openssl genpkey -algorithm ed25519",
		public + one + public: twice, one + two + public: twice,
		strings.Replace(one, body, "hunter2", 1):                   nothingElse,
		strings.Replace(one, body, body[:32], 1):                   "key 1 is not of Ed25519: make one with openssl genpkey -algorithm ed25519",
		one + pemOf(t, elliptic):                                   "key 2 is not of Ed25519: make one with openssl genpkey -algorithm ed25519",
		"\ufeff" + one + two:                                       nothingElse,
		"  " + one + two:                                           nothingElse,
		strings.Replace(one, body, body[:8]+"!"+body[9:], 1) + two: nothingElse,
		strings.TrimSuffix(one, "\n") + two + one:                  nothingElse,
		strings.Split(one, "-----END")[0] + two:                    nothingElse,
		two + one + two:                                            twice,
		strings.Repeat(one, 1000):                                  "is larger than 65536 bytes",
	} {
		path := write(t, text)
		setEnv(t, development, "JWT_PRIVATE_KEY_FILE="+path)
		refuses(t, path, fmt.Sprintf("JWT_PRIVATE_KEY_FILE: %q: %s", path, says))
	}
	// The key in the place of its path is not shown, nor is a secret enough without JWT_SECRET.
	setEnv(t, development, "JWT_PRIVATE_KEY_FILE="+strings.ReplaceAll(one, "\n", " "))
	c, problems := config.Inspect(true)
	if len(problems) != 1 || problems[0].Error() != "JWT_PRIVATE_KEY_FILE: must be the path of a file, and not what is in it" || c.Settings()["JWT_PRIVATE_KEY_FILE"] != "xxxxx" {
		t.Errorf("%v, %s", problems, c.Settings()["JWT_PRIVATE_KEY_FILE"])
	}
	path := write(t, one)
	setEnv(t, "APP_ENV=development", "JWT_PRIVATE_KEY_FILE="+path)
	if _, err := config.Load(true); err == nil || !strings.HasPrefix(err.Error(), "JWT_SECRET: is required") {
		t.Errorf("without JWT_SECRET: %v", err)
	}
	// Others may not write it: production refuses, and development warns.
	noError(t, os.Chmod(path, 0o620))
	says := fmt.Sprintf("JWT_PRIVATE_KEY_FILE: %q: its mode lets others write it: chmod go-w", path)
	setEnv(t, production, "JWT_PRIVATE_KEY_FILE="+path)
	refuses(t, "", says)
	if c := mustLoad(t, development, "JWT_PRIVATE_KEY_FILE="+path); len(c.Warnings) != 1 || c.Warnings[0] != says {
		t.Errorf("warnings %q, want %s", c.Warnings, says)
	}
}
