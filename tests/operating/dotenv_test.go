package operating

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

// inFolder is the program with nothing but a file .env.
func inFolder(t *testing.T, text string) *servicetest.Program {
	t.Helper()
	p := servicetest.NewProgram(t)
	p.Env = []string{}
	writeDotEnv(t, p, text)
	return p
}

func writeDotEnv(t *testing.T, p *servicetest.Program, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.Dir, ".env"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Values are literal. What was read shows in the name of the database's file.
func TestDotEnvValues(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`DATABASE_URL=sqlite:plain.db`:                                        "plain.db",
		`DATABASE_URL=sqlite:a$HOME.db`:                                       "a$HOME.db",
		`DATABASE_URL=sqlite:a${APP_ENV}$$.db`:                                "a${APP_ENV}$$.db",
		`DATABASE_URL="sqlite:a$APP_ENV.db"`:                                  "a$APP_ENV.db",
		`DATABASE_URL='sqlite:a$APP_ENV.db'`:                                  "a$APP_ENV.db",
		`DATABASE_URL="sqlite:a\n\\b.db"`:                                     `a\n\\b.db`,
		`DATABASE_URL=sqlite:a\$b.db`:                                         `a\$b.db`,
		`DATABASE_URL="sqlite:it's.db"`:                                       "it's.db",
		`DATABASE_URL='sqlite:a"b.db'`:                                        `a"b.db`,
		`DATABASE_URL=sqlite:a"b'c.db`:                                        `a"b'c.db`,
		`DATABASE_URL=" sqlite"`:                                              "", // blanks between quotes count
		`DATABASE_URL=sqlite:a#b.db`:                                          "a#b.db",
		`DATABASE_URL=sqlite:a.db # a comment # and more`:                     "a.db",
		"DATABASE_URL=sqlite:a.db\t#comment":                                  "a.db",
		`DATABASE_URL="sqlite:a # b.db" # a comment`:                          "a # b.db",
		`DATABASE_URL=sqlite:a=b.db`:                                          "a=b.db",
		`  DATABASE_URL = sqlite:a b.db  `:                                    "a b.db",
		"export DATABASE_URL=sqlite:a.db":                                     "a.db",
		"export \tDATABASE_URL=sqlite:a.db":                                   "a.db",
		"\uFEFFDATABASE_URL=sqlite:a.db":                                      "a.db",
		"# first\r\n\r\nDATABASE_URL=sqlite:a.db\r\nDOCS=true\r\n":            "a.db",
		"DATABASE_URL=\"sqlite:a.db\"\r\n":                                    "a.db",
		"DATABASE_URL=sqlite:ä\u00a0€.db":                                     "ä\u00a0€.db",
		"DATABASE_URL=\nDOCS=\"\"\nLOG_LEVEL= # info\n":                       "worldevents.db", // empty is unset
		"export=x\nOTHER-PROGRAM.x=1\n#DATABASE_URL=sqlite:b.db\nDOCS = true": "worldevents.db",
	} {
		t.Run(line, func(t *testing.T) {
			p := inFolder(t, line)
			p.Env = []string{"APP_ENV=development"}
			_, stderr, _ := p.Run("migrate")
			if _, err := os.Stat(filepath.Join(p.Dir, want)); err != nil || want == "" && !servicetest.OneLine(stderr, "DATABASE_URL") {
				t.Errorf("%v: %s", err, stderr)
			}
		})
	}
}

// A key with a dollar sign is the key.
func TestDotEnvKey(t *testing.T) {
	t.Parallel()
	const key = "k$PATH-${APP_ENV}-$1-#no-comment-aB3$"
	p := inFolder(t, "APP_ENV=development\nJWT_SECRET="+key+"\n")
	p.MustRun("migrate")
	fromFile := strings.TrimSpace(p.MustRun("session", "issue", "alice"))
	p.Env = servicetest.NewProgram(t, "JWT_SECRET="+key).Env
	if status, body := p.ServeReady().Do("GET", servicetest.SessionPath, "", fromFile); status != 200 {
		t.Errorf("%d %s", status, body)
	}
}

// A name that is nearly right is no less without effect in the file.
func TestDotEnvMisspelt(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t)
	writeDotEnv(t, p, "ALOWED_ORIGINS=https://app.example.org\nEDITOR=vi\n")
	if log := p.ServeReady().Log.String(); strings.Count(log, "WARN msg=\"ALOWED_ORIGINS is no setting and has no effect: ALLOWED_ORIGINS is one\"") != 1 || strings.Contains(log, "EDITOR") {
		t.Error(log)
	}
}

// What cannot be read is refused with its line and without its text, together with what else is wrong.
func TestDotEnvErrors(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2-hunter2"
	for text, lines := range map[string]string{
		"JWT_SECRET " + secret:               "1",
		"JWT_SECRET: " + secret:              "1",
		"export JWT_SECRET":                  "1",
		"=" + secret:                         "1",
		"export =" + secret:                  "1",
		secret:                               "1",
		"1A=" + secret:                       "1",
		"MY SECRET=" + secret:                "1",
		"\nJWT_SECRET=\"" + secret:           "2",
		"\r\nJWT_SECRET='" + secret + "\r\n": "2",
		"JWT_SECRET=\"" + secret + "\n" + secret + "\"\n": "1 2",
		"JWT_SECRET=\"" + secret + "\" " + secret:         "1",
		"JWT_SECRET=\"" + secret + "\"#" + secret:         "1",
		"JWT_SECRET='it''s-" + secret + "'":               "1",
		"JWT_SECRET=" + secret + "\x00":                   "1",
		"JWT_SECRET=" + secret + "\rDOCS=true":            "1",
		"JWT_SECRET=" + secret + "\xff":                   "1",
		"J\x00W\x00T\x00=\x00x\x00":                       "1",
		"DOCS=true\nLOG_LEVEL=info\n\nDOCS=true":          "4",
		"DOCS=true\nexport DOCS=":                         "2",
		"x\nDOCS=perhaps\ny\nDB_TIMEOUT=0":                "1 3 DOCS DB_TIMEOUT",
	} {
		t.Run(fmt.Sprintf("%q", text), func(t *testing.T) {
			stdout, stderr, status := inFolder(t, text).Run("migrate")
			var got []string
			for _, found := range regexp.MustCompile(`\.env:(\d+): |([A-Z]+(?:_[A-Z]+)*): `).FindAllStringSubmatch(stderr, -1) {
				got = append(got, found[1]+found[2])
			}
			if status != 1 || stdout != "" || !servicetest.OneLine(stderr, `".env:`) || strings.Join(got, " ") != lines {
				t.Errorf("names %q, want %s: %d %q", got, lines, status, stderr)
			}
			if strings.Contains(stderr, "hunter2") || strings.Contains(stderr, secret) {
				t.Errorf("shows a secret: %q", stderr)
			}
		})
	}
	p := servicetest.NewProgram(t)
	if err := os.Mkdir(filepath.Join(p.Dir, ".env"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := p.Run("migrate"); status != 1 || !servicetest.OneLine(stderr, ".env: is a directory") {
		t.Errorf("a folder: %d %q", status, stderr)
	}
}

// Whoever can write the file decides who signs sessions. Production refuses one that others can write, development warns.
func TestDotEnvThatOthersCanWrite(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		mode    os.FileMode
		owner   int
		exposed bool
	}{
		{"of its owner", 0o600, -1, false},
		{"readable", 0o644, -1, false},
		{"writable for the group", 0o620, -1, true},
		{"writable for all", 0o602, -1, true},
		{"of somebody else", 0o600, 65534, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := inFolder(t, "LOG_FORMAT=json\n")
			p.Env = append(servicetest.NewProgram(t).Env, "OIDC_ISSUER=https://login.example.org", "OIDC_CLIENT_ID=worldevents")
			file := filepath.Join(p.Dir, ".env")
			if err := os.Chmod(file, test.mode); err != nil {
				t.Fatal(err)
			}
			if test.owner >= 0 {
				if err := os.Chown(file, test.owner, -1); err != nil {
					servicetest.Missing(t, "needs root: %v", err)
				}
			}
			production := p.With("APP_ENV=production", "BASE_URL=https://example.org")
			if _, stderr, status := production.Run("migrate"); (status == 1 && servicetest.OneLine(stderr, ".env: ")) != test.exposed || status == 0 == test.exposed {
				t.Errorf("production: %d %q", status, stderr)
			}
			if _, stderr, status := production.With("APP_ENV=production", "DOCS=x").Run("migrate"); status != 1 || strings.Contains(stderr, ".env: ") != test.exposed || !strings.Contains(stderr, "DOCS: ") {
				t.Errorf("with another error: %d %q", status, stderr)
			}
			p.MustRun("migrate")
			if log := p.ServeReady().Log.String(); strings.Contains(log, `"msg":".env: `) != test.exposed {
				t.Errorf("development: %s", log)
			}
			// A link does not hide the file.
			moved := filepath.Join(t.TempDir(), "settings")
			if err := os.Rename(file, moved); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(moved, file); err != nil {
				t.Fatal(err)
			}
			if _, stderr, status := production.Run("migrate"); status == 0 == test.exposed {
				t.Errorf("a link: %d %q", status, stderr)
			}
		})
	}
}
