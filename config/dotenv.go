package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

const dotEnvFile = ".env"

// readDotEnv reads the file .env, if there is one, and returns everything that is wrong with it. No error quotes a line.
func (c *Config) readDotEnv() (values map[string]string, problems []error) {
	f, err := os.Open(dotEnvFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	defer f.Close()
	info, unknown := f.Stat() // of the open file: nobody can exchange it meanwhile
	text, unread := io.ReadAll(f)
	err = cmp.Or(err, unknown, unread)
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	if err != nil {
		return nil, []error{fmt.Errorf("%s: %w", dotEnvFile, err)}
	}
	owner, hasOwner := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode().Perm()&0o022 != 0:
		c.exposed = append(c.exposed, check{dotEnvFile, false, "its mode lets others write it: chmod 600 " + dotEnvFile})
	case hasOwner && owner.Uid != 0 && int(owner.Uid) != os.Geteuid():
		c.exposed = append(c.exposed, check{dotEnvFile, false, "it belongs to another user, who can write it"})
	}
	return parseDotEnv(string(text))
}

// exportLibpq adds the variables of libpq, such as PGHOST, to the environment, where the driver of PostgreSQL reads them.
func exportLibpq(values map[string]string) {
	for name, value := range values {
		if _, there := os.LookupEnv(name); !there && strings.HasPrefix(name, "PG") {
			os.Setenv(name, value)
		}
	}
}

// parseDotEnv reads lines of NAME=value, each name once. Values are literal. The libraries would lose secrets: godotenv expands $NAME, and
// go-envparse takes any # for a comment.
func parseDotEnv(text string) (values map[string]string, problems []error) {
	values = make(map[string]string)
	lines := make(map[string]int) // from 1 on
	for i, line := range strings.Split(strings.TrimPrefix(text, "\uFEFF"), "\n") {
		name, value, err := parseDotEnvLine(strings.TrimSuffix(line, "\r"))
		if first := lines[name]; err == nil && first > 0 {
			err = fmt.Errorf("sets again what line %d sets", first)
		}
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("%s:%d: %w", dotEnvFile, i+1, err))
		case name != "":
			lines[name], values[name] = i+1, value
		}
	}
	return values, problems
}

var (
	export     = regexp.MustCompile(`^export[ \t]+`)
	assignment = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=(.*)$`)
	comment    = regexp.MustCompile(`[ \t]#.*$`)
)

const blanks = " \t"

// parseDotEnvLine returns no name for a blank line or a comment.
func parseDotEnvLine(line string) (name, value string, err error) {
	if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }) {
		return "", "", errors.New("must be text in UTF-8 without control characters")
	}
	line = strings.Trim(line, blanks)
	if line == "" || line[0] == '#' {
		return "", "", nil
	}
	parts := assignment.FindStringSubmatch(export.ReplaceAllString(line, ""))
	if parts == nil {
		return "", "", errors.New("must be NAME=value")
	}
	value = strings.Trim(parts[2], blanks)
	if value == "" || value[0] != '"' && value[0] != '\'' {
		return parts[1], strings.Trim(comment.ReplaceAllString(parts[2], ""), blanks), nil
	}
	value, rest, closed := strings.Cut(value[1:], value[:1])
	if !closed {
		return "", "", errors.New("the quote is not closed in the same line")
	}
	if strings.Trim(comment.ReplaceAllString(rest, ""), blanks) != "" {
		return "", "", errors.New("something follows the closing quote")
	}
	return parts[1], value, nil
}
