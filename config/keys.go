package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// wellKnownSecrets are parts of keys that stand in documentation for everybody to read.
var wellKnownSecrets = []string{
	"changeme", "change-me", "change_me", "change this", "replace-me", "replace_me", "your-256-bit-secret", "your-secret",
	"your_secret", "a-string-secret-at-least-256-bits-long", "a-valid-string-secret-that-is-at-least-512-bits-long",
}

// secrets splits the keys (RFC 7518 section 3.2 asks for 256 bits) and says what is wrong with them, never what
// they are.
func (c *Config) secrets(needKey bool, text string) (problems []error) {
	if text == "" {
		if needKey && c.Source("JWT_SECRET") == "JWT_SECRET" { // else it is said what is wrong with the file
			problems = append(problems, errors.New("JWT_SECRET: is required: 32 bytes or more, such as the output of: openssl rand -hex 32"))
		}
		return problems
	}
	var keys []string
	for i, secret := range strings.Split(text, ",") {
		secret = strings.TrimSpace(secret)
		problem := func(format string, args ...any) {
			problems = append(problems, fmt.Errorf("%s: key %d %s", c.Source("JWT_SECRET"), i+1, fmt.Sprintf(format, args...)))
		}
		if len(secret) < 32 {
			problem("is shorter than 32 bytes")
		} else if distinct(secret) == 1 {
			problem("is one character again and again")
		}
		if slices.ContainsFunc(wellKnownSecrets, func(example string) bool { return strings.Contains(strings.ToLower(secret), example) }) {
			problem("is a known example")
		}
		if first := slices.Index(keys, secret); first >= 0 && secret != "" {
			problem("is key %d again", first+1)
		}
		keys = append(keys, secret)
		c.Keys = append(c.Keys, []byte(secret))
	}
	return problems
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

// distinct counts the distinct characters of a key, or the distinct bytes of one that is not UTF-8.
func distinct(secret string) int {
	seen := make(map[rune]bool)
	if utf8.ValidString(secret) {
		for _, r := range secret {
			seen[r] = true
		}
	} else {
		for _, b := range []byte(secret) {
			seen[rune(b)] = true
		}
	}
	return len(seen)
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
	if problems := next.secrets(true, text); len(problems) > 0 {
		return nil, nil, errors.Join(problems...)
	}
	if !c.Development {
		warnings = append(warnings, next.weakKeys()...)
	}
	return next.Keys, warnings, nil
}
