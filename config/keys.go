package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"worldevents/config/regularfile"
)

// example is a part of keys in public documentation.
var example = regexp.MustCompile(`(?i)change[-_]?me|change this|replace[-_]me|your-256-bit-secret|your[-_]secret|` +
	`a-string-secret-at-least-256-bits-long|a-valid-string-secret-that-is-at-least-512-bits-long`)

// jwtSecret fills in Keys.
func (c *Config) jwtSecret(needKey bool) []check {
	if c.JWTSecret == "" { // readSecretFiles has said what is wrong with a file
		return []check{{"JWT_SECRET", !needKey || c.JWTSecretFile != "", "is required: 32 bytes or more, such as the output of: openssl rand -hex 32"}}
	}
	return c.readKeys(c.JWTSecret)
}

// readKeys fills in Keys (RFC 7518 section 3.2 asks for 256 bits). The rows number the keys, and never quote them.
func (c *Config) readKeys(text string) (rows []check) {
	setting := c.Source("JWT_SECRET")
	for i, secret := range strings.Split(text, ",") {
		secret = strings.TrimSpace(secret)
		key := fmt.Sprintf("key %d is ", i+1)
		first := slices.IndexFunc(c.Keys, func(key []byte) bool { return string(key) == secret })
		rows = append(rows,
			check{setting, len(secret) >= 32, key + "shorter than 32 bytes"},
			check{setting, len(secret) < 32 || len(slices.Compact(strings.Split(secret, ""))) > 1, key + "one character again and again"},
			check{setting, !example.MatchString(secret), key + "a known example"},
			check{setting, first < 0 || secret == "", key + fmt.Sprintf("key %d again", first+1)})
		c.Keys = append(c.Keys, []byte(secret))
	}
	return rows
}

// RereadKeys is Reread for JWT_SECRET, under the rules of Load.
func (c *Config) RereadKeys(file regularfile.File) (keys [][]byte, warnings []string, err error) {
	text, warnings, err := c.Reread("JWT_SECRET", file)
	if err != nil {
		return nil, nil, err
	}
	next := Config{given: c.given}
	if problems := failed(next.readKeys(text)); len(problems) > 0 {
		return nil, nil, errors.Join(problems...)
	}
	return next.Keys, warnings, nil
}
