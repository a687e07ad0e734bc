package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"worldevents/config/regularfile"
)

// fromFiles are the settings whose value may stand in a file, which the setting with fileSuffix names.
var fromFiles = []string{"DATABASE_URL", "JWT_SECRET", "OIDC_CLIENT_SECRET"}

const fileSuffix = "_FILE"

// maxSecretFile is the size of such a file in bytes at most.
const maxSecretFile = 64 << 10

// readSecretFiles adds to values what the files say. It returns what is wrong with them, and which of them others can write.
func readSecretFiles(values map[string]string) (exposed []string, problems []error) {
	for _, name := range fromFiles {
		setting := name + fileSuffix
		path := values[setting]
		if path == "" {
			continue
		}
		if values[name] != "" {
			problems = append(problems, fmt.Errorf("%s: is set together with %s, in the environment or in %s: one of them must be empty", setting, name, dotEnvFile))
			delete(values, setting)
			continue
		}
		text, writable, err := readFile(path, oneLine)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", setting, err))
			continue
		}
		values[name] = text
		if writable != "" {
			exposed = append(exposed, setting+": "+writable)
		}
	}
	return exposed, problems
}

// readFile returns what parse makes of what is in a file. writable is not empty if others than its owner can write the file. No
// error quotes what is in it.
//
// The owner may be anybody: container engines mount files that belong to users of another machine.
func readFile[T any](path string, parse func(content []byte) (T, error)) (value T, writable string, err error) {
	if isNoPath(path) {
		return value, "", errors.New("must be the path of a file, and not what is in it")
	}
	content, info, err := regularfile.Read(path, maxSecretFile)
	if err != nil {
		return value, "", err
	}
	if value, err = parse(content); err != nil {
		return value, "", fmt.Errorf("%q: %w", path, err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		writable = fmt.Sprintf("%q: its mode lets others write it: chmod go-w", path)
	}
	return value, writable, nil
}

// oneLine returns a text in UTF-8 without the line ending that most editors leave, LF or CRLF.
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

// isNoPath reports whether the value of a setting with fileSuffix looks like that of the one without: errors and check would
// show it.
func isNoPath(path string) bool {
	return strings.Contains(path, "://") || strings.Contains(path, "-----BEGIN") || len(path) >= 32 && !strings.ContainsAny(path, "/.")
}

// Source returns the setting that says name: name itself, or the one that names its file.
func (c *Config) Source(name string) string {
	if slices.Contains(fromFiles, name) && c.given[name+fileSuffix] != "" {
		return name + fileSuffix
	}
	return name
}

// Reread returns the value that the file of a setting has now, and a warning if others can write it in development. It
// must have a file.
func (c *Config) Reread(name string) (text string, warnings []string, err error) {
	return reread(c, name+fileSuffix, oneLine)
}

// reread returns what parse makes of what is in the file of a setting now, and a warning if others can write it in development.
func reread[T any](c *Config, setting string, parse func(content []byte) (T, error)) (value T, warnings []string, err error) {
	value, writable, err := readFile(c.given[setting], parse)
	if err == nil && writable != "" && !c.Development {
		err = errors.New(writable)
	}
	if err == nil && writable != "" {
		warnings = []string{setting + ": " + writable}
	}
	return value, warnings, err
}
