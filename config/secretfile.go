package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"worldevents/config/regularfile"
)

// fromFiles are the settings whose value may be in a file, which the setting with fileSuffix names.
var fromFiles = []string{"DATABASE_URL", "JWT_SECRET", "OIDC_CLIENT_SECRET", "WORLD_ACCESS_TOKEN"}

const fileSuffix = "_FILE"

const maxSecretFile = 64 << 10 // in bytes

// readSecretFiles adds the values of the files to given, and returns what is wrong with them.
func (c *Config) readSecretFiles() (problems []error) {
	for _, name := range fromFiles {
		setting := name + fileSuffix
		if c.given[setting] != "" && c.given[name] != "" {
			problems = append(problems, fmt.Errorf("%s: is set together with %s, in the environment or in %s: one of them must be empty", setting, name, dotEnvFile))
			delete(c.given, setting)
		} else if c.given[setting] != "" {
			text, err := readFile(c, setting, oneLine)
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", setting, err))
			}
			c.given[name] = text
		}
	}
	return problems
}

// ReadFile reads the file of a setting. Its owner may be anybody: container engines mount files of users of another machine.
func (c *Config) ReadFile(setting string) (regularfile.File, error) {
	if isNoPath(c.given[setting]) {
		return regularfile.File{}, errors.New("must be the path of a file, and not what is in it")
	}
	return regularfile.Read(c.given[setting], maxSecretFile)
}

func readFile[T any](c *Config, setting string, parse func(content []byte) (T, error)) (value T, err error) {
	file, err := c.ReadFile(setting)
	if err != nil {
		return value, err
	}
	return parseFile(c, setting, file, parse)
}

// parseFile parses a file, and adds one that others can write to exposed. No error quotes the file.
func parseFile[T any](c *Config, setting string, file regularfile.File, parse func(content []byte) (T, error)) (value T, err error) {
	if value, err = parse(file.Content); err != nil {
		return value, fmt.Errorf("%q: %w", file.Path, err)
	}
	if file.Mode.Perm()&0o022 != 0 {
		c.exposed = append(c.exposed, check{setting, false, fmt.Sprintf("%q: its mode lets others write it: chmod go-w", file.Path)})
	}
	return value, nil
}

// oneLine removes the line ending that most editors leave, LF or CRLF.
func oneLine(content []byte) (string, error) {
	text := string(content)
	if rest, ok := strings.CutSuffix(text, "\n"); ok {
		text = strings.TrimSuffix(rest, "\r")
	}
	switch {
	case text == "":
		return "", errors.New("is empty")
	case !utf8.ValidString(text):
		return "", errors.New("is not UTF-8")
	case strings.Contains(text, "\x00"):
		return "", errors.New("has a NUL character")
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
		return "", errors.New("must be one line without control characters")
	}
	return text, nil
}

// isNoPath reports whether a path looks like the secret itself, which errors and check would show.
func isNoPath(path string) bool {
	return strings.Contains(path, "://") || strings.Contains(path, "-----BEGIN") || len(path) >= 32 && !strings.ContainsAny(path, "/.")
}

// Source returns the setting that has the value of name: name itself, or the one of its file.
func (c *Config) Source(name string) string {
	if c.given[name+fileSuffix] != "" {
		return name + fileSuffix
	}
	return name
}

// Reread returns the value of a setting in a file that ReadFile has read. Others may write the file in development alone, with a warning.
func (c *Config) Reread(name string, file regularfile.File) (text string, warnings []string, err error) {
	return reread(c, name+fileSuffix, file, oneLine)
}

func reread[T any](c *Config, setting string, file regularfile.File, parse func(content []byte) (T, error)) (value T, warnings []string, err error) {
	now := &Config{given: c.given}
	value, err = parseFile(now, setting, file, parse)
	for _, row := range now.exposed {
		if !c.Development {
			err = errors.New(row.words)
		}
		warnings = append(warnings, row.setting+": "+row.words)
	}
	return value, warnings, err
}
