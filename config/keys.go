package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// wellKnownSecrets are parts of keys that stand in documentation for everybody to read.
var wellKnownSecrets = []string{
	"changeme", "change-me", "change_me", "change this", "replace-me", "replace_me", "your-256-bit-secret", "your-secret",
	"your_secret", "a-string-secret-at-least-256-bits-long", "a-valid-string-secret-that-is-at-least-512-bits-long",
}

// checkKeys fills in Keys from text (RFC 7518 section 3.2 asks for 256 bits) and says what is wrong with them, never what
// they are.
func (c *Config) checkKeys(found *faults, needKey bool, text string) {
	setting := c.Source("JWT_SECRET")
	if text == "" {
		// What is wrong with a file was found when it was read.
		found.require("JWT_SECRET", !needKey || setting != "JWT_SECRET", "is required: 32 bytes or more, such as the output of: openssl rand -hex 32")
		return
	}
	for i, secret := range strings.Split(text, ",") {
		secret = strings.TrimSpace(secret)
		isExample := slices.ContainsFunc(wellKnownSecrets, func(example string) bool { return strings.Contains(strings.ToLower(secret), example) })
		first := slices.IndexFunc(c.Keys, func(key []byte) bool { return string(key) == secret })
		found.require(setting, len(secret) >= 32, "key %d is shorter than 32 bytes", i+1)
		found.require(setting, len(secret) < 32 || distinct(secret) > 1, "key %d is one character again and again", i+1)
		found.require(setting, !isExample, "key %d is a known example", i+1)
		found.require(setting, first < 0 || secret == "", "key %d is key %d again", i+1, first+1)
		c.Keys = append(c.Keys, []byte(secret))
	}
}

// weakKeys returns a warning for each key that looks typed and not drawn.
func (c *Config) weakKeys() (warnings []string) {
	for i, key := range c.Keys {
		switch secret := string(key); {
		case distinct(secret) < 8:
			warnings = append(warnings, fmt.Sprintf("%s: key %d has fewer than 8 distinct characters: make one with openssl rand -hex 32", c.Source("JWT_SECRET"), i+1))
		case isSequence(secret):
			warnings = append(warnings, fmt.Sprintf("%s: key %d is a plain sequence: make one with openssl rand -hex 32", c.Source("JWT_SECRET"), i+1))
		}
	}
	return warnings
}

// distinct counts the distinct characters of a key. A byte that is no UTF-8 is a character of its own.
func distinct(secret string) int {
	characters := strings.Split(secret, "")
	slices.Sort(characters)
	return len(slices.Compact(characters))
}

// isSequence reports whether most characters are the successor, or most the predecessor, of the one before. Of 64
// hexadecimal digits that were drawn about 4 are.
func isSequence(secret string) bool {
	up, down := 0, 0
	for i := 1; i < len(secret); i++ {
		switch int(secret[i]) - int(secret[i-1]) {
		case 1:
			up++
		case -1:
			down++
		}
	}
	return 2*max(up, down) >= len(secret)
}

// RereadKeys is Reread for JWT_SECRET, under the rules of Load. In production it warns of weak keys.
func (c *Config) RereadKeys() (keys [][]byte, warnings []string, err error) {
	text, warnings, err := c.Reread("JWT_SECRET")
	if err != nil {
		return nil, nil, err
	}
	next := Config{given: c.given}
	var found faults
	if next.checkKeys(&found, true, text); len(found) > 0 {
		return nil, nil, errors.Join(found...)
	}
	if !c.Development {
		warnings = append(warnings, next.weakKeys()...)
	}
	return next.Keys, warnings, nil
}
