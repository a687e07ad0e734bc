package commands

import (
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
			for _, test := range []struct {
				p       *servicetest.Program
				command string
			}{{p, "user list"}, {p, "migrate"}, {p, "copy --to sqlite:copy.db"}, {servicetest.NewProgram(t), "copy --to " + url}} {
				stdout, stderr, status := test.p.Run(strings.Fields(test.command)...)
				if status != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, "s3cr3t") {
					t.Errorf("%s: %d %q %q", test.command, status, stdout, stderr)
				}
				if stray && !strings.Contains(stderr, "has more than one @") {
					t.Errorf("%s: %q", test.command, stderr)
				}
			}
			if stray {
				if _, stderr, status := p.Run("serve"); status != 1 || !servicetest.OneLine(stderr, "DATABASE_URL: has more than one @") || strings.Contains(stderr, "s3cr3t") {
					t.Errorf("serve: %d %q", status, stderr)
				}
			}
		})
	}
	// As a parameter it is what it says.
	result, _ := servicetest.Check(t, servicetest.NewProgram(t, "DATABASE_URL=postgres://me@127.0.0.1:1/db?password=s3cr3t@s3cr3t"))
	result.Has(t, "fault", "connection refused")
}
