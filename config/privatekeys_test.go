package config_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"worldevents/config"
	"worldevents/tests/servicetest"
)

// pemOf is a private key as openssl genpkey writes it.
func pemOf(t *testing.T, key any) string {
	t.Helper()
	der := servicetest.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func TestPrivateKeys(t *testing.T) {
	first := ed25519.NewKeyFromSeed([]byte("the seed of a key that signs ..."))
	second := ed25519.NewKeyFromSeed([]byte("the seed of a key of former days"))
	elliptic := servicetest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	one, two := pemOf(t, first), pemOf(t, second)
	for text, want := range map[string][]ed25519.PrivateKey{
		one: {first}, strings.ReplaceAll(one, "\n", "\r\n"): {first}, two + "\n" + one + "\n\n": {second, first}, strings.TrimSuffix(one, "\n"): {first},
	} {
		c := mustLoad(t, development+"\nJWT_PRIVATE_KEY_FILE="+write(t, text))
		servicetest.Is(t, c.Ed25519Keys.Private, want, "the private keys")
		servicetest.Is(t, [2]int{len(c.Ed25519Keys.Public), len(c.Keys)}, [2]int{0, 1}, "public keys and others")
	}
	der := servicetest.Must(x509.MarshalPKIXPublicKey(second.Public()))(t)
	public := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})) // as openssl pkey -pubout writes it
	keys := mustLoad(t, development+"\nJWT_PRIVATE_KEY_FILE="+write(t, public+one)).Ed25519Keys
	servicetest.Is(t, keys.Private, []ed25519.PrivateKey{first}, "the private keys beside a public one")
	servicetest.Is(t, keys.Public, []ed25519.PublicKey{second.Public().(ed25519.PublicKey)}, "the public keys")
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
	servicetest.Is(t, errors.Join(problems...).Error(), "JWT_PRIVATE_KEY_FILE: must be the path of a file, and not what is in it", "the problems")
	servicetest.Is(t, c.Settings()["JWT_PRIVATE_KEY_FILE"], "xxxxx", "the setting")
	path := write(t, one)
	setEnv(t, "APP_ENV=development", "JWT_PRIVATE_KEY_FILE="+path)
	_, err := config.Load(true)
	servicetest.Contains(t, fmt.Sprint(err), "JWT_SECRET: is required")
	// Others may not write it: production refuses, and development warns.
	servicetest.NoError(t, os.Chmod(path, 0o620))
	says := fmt.Sprintf("JWT_PRIVATE_KEY_FILE: %q: its mode lets others write it: chmod go-w", path)
	setEnv(t, production, "JWT_PRIVATE_KEY_FILE="+path)
	refuses(t, "", says)
	servicetest.Is(t, mustLoad(t, development, "JWT_PRIVATE_KEY_FILE="+path).Warnings, []string{says}, "warnings")
}
