package config_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"worldevents/config"
	"worldevents/tests/servicetest"
)

// writeDotEnv makes a folder with a file .env the working directory until the test ends.
func writeDotEnv(t *testing.T, text string) {
	t.Helper()
	t.Chdir(t.TempDir())
	servicetest.NoError(t, os.WriteFile(".env", []byte(text), 0o600))
}

// Values are literal: no secret is cut at a dollar sign. A name that is no setting is told, whatever it is.
func TestDotEnv(t *testing.T) {
	setEnv(t, development)
	for line, want := range map[string]string{
		"JWT_ISSUER=plain":                                     "plain",
		"JWT_ISSUER=a$HOME":                                    "a$HOME",
		"JWT_ISSUER=a${APP_ENV}$$":                             "a${APP_ENV}$$",
		`JWT_ISSUER="a$APP_ENV"`:                               "a$APP_ENV",
		`JWT_ISSUER='a$APP_ENV'`:                               "a$APP_ENV",
		`JWT_ISSUER="a\n\\b"`:                                  `a\n\\b`,
		`JWT_ISSUER=a\$b`:                                      `a\$b`,
		`JWT_ISSUER="it's"`:                                    "it's",
		`JWT_ISSUER='a"b'`:                                     `a"b`,
		`JWT_ISSUER=a"b'c`:                                     `a"b'c`,
		`JWT_ISSUER=" a "`:                                     " a ", // blanks between quotes count
		`JWT_ISSUER= "a"`:                                      "a",
		"JWT_ISSUER=a#b":                                       "a#b",
		"JWT_ISSUER=#b":                                        "#b",
		"JWT_ISSUER=a # a comment # and more":                  "a",
		"JWT_ISSUER=a\t#comment":                               "a",
		`JWT_ISSUER="a # b" # a comment`:                       "a # b",
		"JWT_ISSUER=a=b":                                       "a=b",
		"  JWT_ISSUER = a b  ":                                 "a b",
		"export JWT_ISSUER=a":                                  "a",
		"export \tJWT_ISSUER=a":                                "a",
		"\uFEFFJWT_ISSUER=a":                                   "a",
		"# x\r\n\r\nJWT_ISSUER=a\r\nDOCS=true\r\n":             "a",
		"JWT_ISSUER=\"a\"\r\n":                                 "a",
		"JWT_ISSUER=ä\u00a0€":                                  "ä\u00a0€",
		"JWT_ISSUER=\nDOCS=\"\"\nLOG_LEVEL= # warn\n":          "", // empty is unset
		"export=x\nOTHER-PROGRAM.x=1\n#JWT_ISSUER=b\nDOCS = 1": "",
		"APP_ENV=x\nDOCS=x\nDOCS_=y\nJWT_ISSUER=a":             "DOCS: must be true or false", // real variables win
	} {
		writeDotEnv(t, line)
		c, problems := config.Inspect(true)
		got := c.JWTIssuer
		if len(problems) > 0 {
			got = errors.Join(problems...).Error()
		}
		servicetest.Is(t, got, want, "%q", line)
	}
	writeDotEnv(t, "ALOWED_ORIGINS=https://app.example.org\nEDITOR=vi\nlog_level=\nPGAPPNAME=we\nTZ=UTC\n")
	setEnv(t, development, "TZ=", "EDITOR=ed") // which is the editor's, wherever else it stands
	const noSetting = " is no setting and has no effect"
	servicetest.Is(t, servicetest.Must(config.Load(true))(t).Warnings, []string{"ALOWED_ORIGINS" + noSetting}, "warnings")
	all := []string{"ALOWED_ORIGINS" + noSetting, "EDITOR" + noSetting, "TZ" + noSetting}
	servicetest.Is(t, mustLoad(t, development).Warnings, all, "warnings")
	t.Chdir(t.TempDir())
	servicetest.NoError(t, os.Mkdir(".env", 0o700))
	refuses(t, "", ".env: is a directory")
}

// What cannot be read is refused with its line and without its text, together with what else is wrong.
func TestDotEnvRefused(t *testing.T) {
	setEnv(t, development)
	const (
		form   = ": must be NAME=value"
		text   = ": must be text in UTF-8 without control characters"
		open   = ": the quote is not closed in the same line"
		behind = ": something follows the closing quote"
	)
	for _, test := range []struct {
		says  string
		files []string
	}{
		{".env:1" + form, []string{
			"JWT_SECRET " + hidden, "JWT_SECRET: " + hidden, "export JWT_SECRET", "=" + hidden, "export =" + hidden, hidden, "1A=" + hidden, "MY SECRET=" + hidden,
			"J\u00c4=" + hidden, "exportX\t" + hidden,
		}},
		{".env:1" + text, []string{"JWT_SECRET=" + hidden + "\x00", "JWT_SECRET=" + hidden + "\rDOCS=true", "JWT_SECRET=" + hidden + "\xff", "J\x00W\x00T\x00=\x00x\x00"}},
		{".env:2" + open, []string{"\nJWT_SECRET=\"" + hidden, "\r\nJWT_SECRET='" + hidden + "\r\n"}},
		{".env:1" + open + "\n.env:2" + form, []string{"JWT_SECRET=\"" + hidden + "\n" + hidden + "\"\n"}},
		{".env:1" + behind, []string{"JWT_SECRET=\"" + hidden + "\" " + hidden, "JWT_SECRET=\"" + hidden + "\"#" + hidden, "JWT_SECRET='it''s-" + hidden + "'"}},
		{".env:4: sets again what line 1 sets", []string{"DOCS=true\nLOG_LEVEL=info\n\nDOCS=true"}},
		{".env:2: sets again what line 1 sets", []string{"DOCS=true\nexport DOCS="}},
		{".env:1" + form + "\n.env:3" + form + "\nDOCS: must be true or false\nDB_TIMEOUT: must be from 1ms to 30s, when the server gives a response up", []string{"x\nDOCS=perhaps\ny\nDB_TIMEOUT=0"}},
	} {
		for _, file := range test.files {
			writeDotEnv(t, file)
			refuses(t, file, test.says)
		}
	}
}

// Whoever can write the file decides who signs sessions. Production refuses one that others can write, development warns,
// and a link does not hide it.
func TestDotEnvThatOthersCanWrite(t *testing.T) {
	const mode, owner = ".env: its mode lets others write it: chmod 600 .env", ".env: it belongs to another user, who can write it"
	for _, test := range []struct {
		mode  os.FileMode
		given bool
		says  string
	}{
		{0o600, false, ""}, {0o644, false, ""}, {0o620, false, mode}, {0o602, false, mode}, {0o600, true, owner},
	} {
		writeDotEnv(t, "DOCS=false\n")
		servicetest.NoError(t, os.Chmod(".env", test.mode))
		if test.given {
			give(t, ".env", 65534)
		}
		for _, linked := range []bool{false, true} {
			if linked {
				file := filepath.Join(t.TempDir(), "settings")
				servicetest.NoError(t, errors.Join(os.Rename(".env", file), os.Symlink(file, ".env")))
			}
			c := mustLoad(t, development)
			servicetest.Is(t, strings.Join(c.Warnings, "\n"), test.says, "development warns")
			servicetest.Must(c.RereadLogLevel())(t)
			setEnv(t, production, "DB_TIMEOUT=0")
			c, problems := config.Inspect(true)
			const other = "DB_TIMEOUT: must be from 1ms to 30s, when the server gives a response up"
			servicetest.Is(t, errors.Join(problems...).Error(), strings.TrimSpace(other+"\n"+test.says), "production refuses")
			_, err := c.RereadLogLevel()
			servicetest.Is(t, fmt.Sprint(err), cmp.Or(test.says, "<nil>"), "production reads the level")
		}
	}
}

// A file of root's is nobody's whom the service need fear.
func TestDotEnvOfRoot(t *testing.T) {
	writeDotEnv(t, "DOCS=false\n")
	setEnv(t, production)
	servicetest.NoError(t, errors.Join(os.Chmod(".", 0o755), os.Chmod(".env", 0o644)))
	give(t, ".env", 0)
	servicetest.NoError(t, syscall.Seteuid(65534))
	_, err := config.Load(true)
	servicetest.NoError(t, errors.Join(err, syscall.Seteuid(0)))
}

// LOG_LEVEL is read again with the rest left alone.
func TestRereadLogLevel(t *testing.T) {
	writeDotEnv(t, "LOG_LEVEL=warn\n")
	c := mustLoad(t, production)
	for _, test := range []struct{ file, want string }{
		{"LOG_LEVEL=debug\nDOCS=x", "DEBUG"}, {"", "INFO"}, {"LOG_LEVEL=loud", "LOG_LEVEL: must be debug, info, warn or error"}, {"x", ".env:1: must be NAME=value"},
	} {
		servicetest.NoError(t, os.WriteFile(".env", []byte(test.file), 0o600))
		level, err := c.RereadLogLevel()
		got := level.String()
		if err != nil {
			got = err.Error()
		}
		servicetest.Is(t, got, test.want, "%q", test.file)
	}
}
