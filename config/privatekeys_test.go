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
	const make = "make one with openssl genpkey -algorithm ed25519"
	body := strings.Split(one, "\n")[1]
	for says, texts := range map[string][]string{
		"is empty":                   {"", " \n\n"},
		"is larger than 65536 bytes": {strings.Repeat(one, 1000)},
		"has a key twice, or a private key and its public half": {public + one + public, one + two + public, two + one + two},
		"key 1 is not of Ed25519: " + make:                      {strings.ReplaceAll(one, "PRIVATE KEY", "PUBLIC KEY"), strings.Replace(one, body, body[:32], 1)},
		"key 2 is not of Ed25519: " + make:                      {one + pemOf(t, elliptic)},
		"must have private keys in PKCS #8, not encrypted, or public keys, all in PEM, and nothing else: " + make: {
			body, one + body, one + "hunter2", strings.ReplaceAll(one, "PRIVATE KEY", "ENCRYPTED PRIVATE KEY"), strings.Replace(one, body, "hunter2", 1),
			"\ufeff" + one + two, "  " + one + two, strings.Replace(one, body, body[:8]+"!"+body[9:], 1) + two,
			strings.TrimSuffix(one, "\n") + two + one, strings.Split(one, "-----END")[0] + two,
		},
	} {
		for _, text := range texts {
			path := write(t, text)
			setEnv(t, development, "JWT_PRIVATE_KEY_FILE="+path)
			refuses(t, path, fmt.Sprintf("JWT_PRIVATE_KEY_FILE: %q: %s", path, says))
		}
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
