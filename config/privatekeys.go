package config

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"worldevents/config/regularfile"
)

const privateKeyFile = "JWT_PRIVATE_KEY_FILE"

// Ed25519Keys are the keys of a file, in its order.
type Ed25519Keys struct {
	// The first private key signs, if there is one. All verify.
	Private []ed25519.PrivateKey
	// Public keys verify the JWTs of other signers.
	Public []ed25519.PublicKey
}

// All returns the public halves of the private keys, then the public keys.
func (k Ed25519Keys) All() (public [][]byte) {
	for _, key := range k.Private {
		public = append(public, key.Public().(ed25519.PublicKey))
	}
	for _, key := range k.Public {
		public = append(public, key)
	}
	return public
}

func (c *Config) privateKeys() []check {
	if c.JWTPrivateKeyFile == "" {
		return nil
	}
	var err error
	if c.Ed25519Keys, err = readFile(c, privateKeyFile, parsePrivateKeys); err != nil {
		return []check{{privateKeyFile, false, err.Error()}}
	}
	return nil
}

// RereadPrivateKeys is Reread for JWT_PRIVATE_KEY_FILE.
func (c *Config) RereadPrivateKeys(file regularfile.File) (keys Ed25519Keys, warnings []string, err error) {
	return reread(c, privateKeyFile, file, parsePrivateKeys)
}

var errNoKeys = errors.New("must have private keys in PKCS #8, not encrypted, or public keys, all in PEM, and nothing else: make one with openssl genpkey -algorithm ed25519")

// parsePrivateKeys reads different keys of Ed25519 in PEM (RFC 7468): PKCS #8, not encrypted, or SubjectPublicKeyInfo (RFC 8410).
func parsePrivateKeys(content []byte) (keys Ed25519Keys, err error) {
	for rest := content; len(bytes.TrimSpace(rest)) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "PRIVATE KEY" && block.Type != "PUBLIC KEY" {
			return keys, errNoKeys
		}
		var parsed any
		if block.Type == "PRIVATE KEY" {
			parsed, _ = x509.ParsePKCS8PrivateKey(block.Bytes)
		} else {
			parsed, _ = x509.ParsePKIXPublicKey(block.Bytes)
		}
		switch key := parsed.(type) {
		case ed25519.PrivateKey:
			keys.Private = append(keys.Private, key)
		case ed25519.PublicKey:
			keys.Public = append(keys.Public, key)
		default:
			return keys, fmt.Errorf("key %d is not of Ed25519: make one with openssl genpkey -algorithm ed25519", len(keys.All())+1)
		}
	}
	all := keys.All()
	for i, key := range all {
		if slices.ContainsFunc(all[:i], func(other []byte) bool { return bytes.Equal(key, other) }) {
			return keys, errors.New("has a key twice, or a private key and its public half")
		}
	}
	switch len(all) {
	case 0:
		return keys, errors.New("is empty")
	case bytes.Count(content, []byte("-----BEGIN")):
		return keys, nil
	}
	return keys, errNoKeys // pem.Decode has passed over what it cannot read
}
