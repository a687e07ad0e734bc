package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// dotEnvFile is read in the working directory.
const dotEnvFile = ".env"

// readDotEnv reads the file .env, if there is one, and returns everything that is wrong with it. exposed says who else can
// write it; it is empty when nobody else can. No error quotes a line.
func readDotEnv() (values map[string]string, exposed []string, problems []error) {
	f, err := os.Open(dotEnvFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err == nil {
		defer f.Close()
	}
	var info fs.FileInfo
	if err == nil {
		info, err = f.Stat() // of the open file: nobody can exchange it meanwhile
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(f)
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	if err != nil {
		return nil, nil, []error{fmt.Errorf("%s: %w", dotEnvFile, err)}
	}
	if by := exposure(info); by != "" {
		exposed = []string{dotEnvFile + ": " + by}
	}
	values, problems = parseDotEnv(string(text))
	return values, exposed, problems
}

// exportLibpq puts the variables of libpq, such as PGHOST, into the environment, where the driver of PostgreSQL reads them. One
// that is there stays, an empty one, too.
func exportLibpq(values map[string]string) {
	for name, value := range values {
		if _, there := os.LookupEnv(name); !there && strings.HasPrefix(name, "PG") {
			os.Setenv(name, value)
		}
	}
}

// exposure says who besides the user of this process and root can write the file of info.
func exposure(info fs.FileInfo) string {
	switch {
	case info.Mode().Perm()&0o022 != 0:
		return "its mode lets others write it: chmod 600 " + dotEnvFile
	case ownedByOther(info):
		return "it belongs to another user, who can write it"
	}
	return ""
}

// ownedByOther reports whether a file belongs to somebody who is neither root nor the user of this process.
func ownedByOther(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid()
}

// parseDotEnv reads lines of NAME=value. Values are literal: nothing in them is expanded or unescaped, so that no secret
// is cut at a dollar sign. A name may stand there once only, or a setting would be lost.
//
// It is ours because the libraries lose settings: godotenv expands $NAME, and go-envparse takes any # for a comment.
func parseDotEnv(text string) (values map[string]string, problems []error) {
	values = make(map[string]string)
	lines := make(map[string]int)
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\uFEFF")) {
		n++
		name, value, err := parseDotEnvLine(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"))
		if first := lines[name]; err == nil && first > 0 {
			err = fmt.Errorf("sets again what line %d sets", first)
		}
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("%s:%d: %w", dotEnvFile, n, err))
		case name != "":
			lines[name], values[name] = n, value
		}
	}
	return values, problems
}

const blanks = " \t"

// parseDotEnvLine reads one line. The name is empty for a blank line and for a comment.
func parseDotEnvLine(line string) (name, value string, err error) {
	if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }) {
		return "", "", errors.New("must be text in UTF-8 without control characters")
	}
	line = strings.Trim(line, blanks)
	if line == "" || line[0] == '#' {
		return "", "", nil
	}
	if rest, ok := strings.CutPrefix(line, "export"); ok && strings.IndexAny(rest, blanks) == 0 {
		line = strings.TrimLeft(rest, blanks)
	}
	name, value, ok := strings.Cut(line, "=")
	name = strings.TrimRight(name, blanks)
	if !ok || !isVariable(name) {
		return "", "", errors.New("must be NAME=value")
	}
	value, err = parseDotEnvValue(value)
	return name, value, err
}

// parseDotEnvValue reads what follows the equals sign: text between two quotes of one kind, or text up to a # after a
// blank, which begins a comment.
func parseDotEnvValue(text string) (string, error) {
	if quoted := strings.TrimLeft(text, blanks); quoted != "" && (quoted[0] == '"' || quoted[0] == '\'') {
		value, rest, closed := strings.Cut(quoted[1:], quoted[:1])
		if !closed {
			return "", errors.New("the quote is not closed in the same line")
		}
		if after := strings.TrimLeft(rest, blanks); after != "" && (after[0] != '#' || len(after) == len(rest)) {
			return "", errors.New("something follows the closing quote")
		}
		return value, nil
	}
	for i := 1; i < len(text); i++ {
		if text[i] == '#' && strings.IndexByte(blanks, text[i-1]) >= 0 {
			text = text[:i]
			break
		}
	}
	return strings.Trim(text, blanks), nil
}

// isVariable reports whether name can be that of a variable. Some programs allow dots and dashes.
func isVariable(name string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
	return name != "" && strings.Trim(name, letters+"0123456789.-") == "" && strings.Contains(letters, name[:1])
}
