package commands

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

// A password with characters that a URL has its own use for: where one cannot be told from the other the URL is refused, and
// no part of it is shown.
func TestPasswordsInURLs(t *testing.T) {
	t.Parallel()
	for password, stray := range map[string]bool{
		"s3cr3t@s3cr3t": true, "@s3cr3t": true, "s3cr3t@": true, "x@s3cr3t/s3cr3t": true, "x@s3cr3t?s3cr3t": true, "x@s3cr3t?a=b&s3cr3t": true,
		"s3cr3t,s3cr3t@s3cr3t": true, "x/s3cr3t": false, "x%s3cr3t": false, "s3cr3t?s3cr3t": false, "s3cr3t#s3cr3t": false, "s3cr3t:s3cr3t": false,
	} {
		t.Run(password, func(t *testing.T) {
			t.Parallel()
			url := "postgres://me:" + password + "@127.0.0.1:1/db"
			p := servicetest.NewProgram(t, "DATABASE_URL="+url)
			result, _ := servicetest.Check(t, p) // which looks for s3cr3t
			if stray {
				result.Has(t, "fault", "^DATABASE_URL: has more than one @: .*%40")
			}
			words := map[bool]string{true: "has more than one @"}[stray]
			for _, command := range []string{"user list", "migrate", "copy --to sqlite:copy.db"} {
				servicetest.Lacks(t, p.Fails(words, strings.Fields(command)...), "s3cr3t")
			}
			servicetest.Lacks(t, servicetest.NewProgram(t).Fails(words, "copy", "--to", url), "s3cr3t")
			if stray {
				servicetest.Lacks(t, p.Fails("DATABASE_URL: "+words, "serve"), "s3cr3t")
			}
		})
	}
	// As a parameter it is what it says.
	servicetest.Finds(t, servicetest.NewProgram(t, "DATABASE_URL=postgres://me@127.0.0.1:1/db?password=s3cr3t@s3cr3t"), "fault", "connection refused")
}

// The variables of libpq work in .env as every setting does, and real ones win.
func TestLibpqVariablesInDotEnv(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	address := servicetest.Must(url.Parse(db.URL))(t)
	p := servicetest.NewProgram(t, "DATABASE_URL=postgres://")
	write := func(password string) {
		t.Helper()
		lines := "PGHOST=" + address.Hostname() + "\nPGPORT=" + address.Port() + "\nPGUSER=" + address.User.Username() +
			"\nexport PGDATABASE='" + address.Path[1:] + "'\nPGPASSWORD=" + password + "\nPGOPTIONS=" + address.Query().Get("options") + "\n"
		servicetest.NoError(t, os.WriteFile(filepath.Join(p.Dir, ".env"), []byte(lines), 0o600))
	}
	write("s3cr3t")
	servicetest.Sound(t, p)
	p.MustRun("user", "add", "alice")
	p.ServeReady()
	for _, env := range []string{"PGHOST=127.0.0.1", "PGPORT=1", "PGDATABASE=nowhere", "PGDATABASE="} {
		_, stderr, status := p.With(env).Run("user", "list")
		servicetest.Is(t, status == 0, env == "PGHOST=127.0.0.1", "%s succeeds: %s", env, stderr)
	}
}
