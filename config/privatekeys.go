package config

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
)

const privateKeyFile = "JWT_PRIVATE_KEY_FILE"

// readPrivateKeys fills in PrivateKeys, and exposed if others can write the file.
func (c *Config) readPrivateKeys(found *faults) {
	if c.JWTPrivateKeyFile == "" {
		return
	}
	keys, writable, err := readFile(c.JWTPrivateKeyFile, parsePrivateKeys)
	switch {
	case err != nil:
		found.add(privateKeyFile, "%v", err)
	case writable != "":
		c.exposed = append(c.exposed, privateKeyFile+": "+writable)
	}
	c.PrivateKeys = keys
}

// RereadPrivateKeys is Reread for JWT_PRIVATE_KEY_FILE.
func (c *Config) RereadPrivateKeys() (keys []ed25519.PrivateKey, warnings []string, err error) {
	return reread(c, privateKeyFile, parsePrivateKeys)
}

var errNoKeys = errors.New("must have private keys in PKCS #8 and PEM, not encrypted, and nothing else: make one with openssl genpkey -algorithm ed25519")

// parsePrivateKeys reads one or more different keys of Ed25519, in PEM (RFC 7468) and PKCS #8 (RFC 8410), not encrypted.
func parsePrivateKeys(content []byte) (keys []ed25519.PrivateKey, err error) {
	for rest := content; len(bytes.TrimSpace(rest)) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "PRIVATE KEY" {
			return nil, errNoKeys
		}
		parsed, _ := x509.ParsePKCS8PrivateKey(block.Bytes)
		key, ok := parsed.(ed25519.PrivateKey)
		if !ok {
			return nil, fmt.Errorf("key %d is not of Ed25519: make one with openssl genpkey -algorithm ed25519", len(keys)+1)
		}
		if first := slices.IndexFunc(keys, func(other ed25519.PrivateKey) bool { return other.Equal(key) }); first >= 0 {
			return nil, fmt.Errorf("key %d is key %d again", len(keys)+1, first+1)
		}
		keys = append(keys, key)
	}
	switch len(keys) {
	case 0:
		return nil, errors.New("is empty")
	case bytes.Count(content, []byte("-----BEGIN")): // pem.Decode passes over what it cannot read
		return keys, nil
	}
	return nil, errNoKeys
}
