package operating

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"worldevents/config"
	"worldevents/tests/servicetest"
)

// The code, .env.example and the table of settings list the same settings with the same defaults, and no page names one that
// there is not.
func TestSettingsAreDocumented(t *testing.T) {
	t.Parallel()
	const settings = "docs/operate/settings.md"
	inCode := map[string]string{}
	for field := range reflect.TypeFor[config.Config]().Fields() {
		if name := field.Tag.Get("env"); name != "" && name != "-" {
			inCode[name] = field.Tag.Get("envDefault")
		}
	}
	inCode["LOG_FORMAT"] = "json" // which depends on APP_ENV

	example := servicetest.Shipped(t, ".env.example")
	for where, found := range map[string][][]string{
		".env.example": regexp.MustCompile(`(?m)^#?([A-Z_]+)=(.*)$`).FindAllStringSubmatch(example, -1),
		settings:       regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| (?:`([^`]*)` )?\\|").FindAllStringSubmatch(servicetest.Shipped(t, settings), -1),
	} {
		listed := map[string]string{}
		for _, m := range found {
			if _, twice := listed[m[1]]; twice {
				t.Errorf("%s lists %s twice", where, m[1])
			}
			listed[m[1]] = m[2]
		}
		if where == ".env.example" {
			listed["APP_ENV"] = inCode["APP_ENV"] // that of the example is another
		}
		if !servicetest.Equal(listed, inCode) {
			t.Errorf("%s lists\n%v, want\n%v", where, listed, inCode)
		}
	}
	if !strings.Contains(example, "\nAPP_ENV=development\n") || !strings.Contains(example, "\nJWT_SECRET=\n") {
		t.Error(".env.example must say development, and leave JWT_SECRET empty")
	}
	inCode["TEST_PROGRAM"], inCode["TEST_DATABASE_URL"], inCode["TEST_POSTGRES_BIN"], inCode["SIGNING_KEY"] = "", "", "", "" // of the tests and the build
	inCode["ON_ERROR_STOP"] = ""                                                                                             // of psql
	inCode["SSL_CERT_FILE"], inCode["RENEWED_LINEAGE"], inCode["CAP_NET_BIND_SERVICE"] = "", "", ""                          // of package crypto/x509, certbot and Linux
	for _, page := range append(servicetest.Pages(t), ".env.example") {
		for _, name := range regexp.MustCompile(`\b[A-Z]+(_[A-Z]+)+\b`).FindAllString(servicetest.Shipped(t, page), -1) {
			if _, known := inCode[name]; !known {
				t.Errorf("%s names %s", page, name)
			}
		}
	}
}

// Every promise of SECURITY.md names tests that are there.
func TestPromisesHaveTests(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(servicetest.Shipped(t, "SECURITY.md"), "\n| Promise | Test |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	if len(rows) < 50 {
		t.Fatalf("%d promises", len(rows))
	}
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if len(cells) != 2 {
			t.Fatalf("not a promise with its tests: %s", row)
		}
		for name := range strings.SplitSeq(cells[1], ", ") {
			if test := "tests/" + name; !servicetest.IsShipped(t, test+"_test.go") && !servicetest.IsShipped(t, test) && !servicetest.IsShipped(t, name+"_test.go") && !servicetest.IsShipped(t, name) {
				t.Errorf("%s is not there: %s", name, row)
			}
		}
	}
}

// All that is wrong with the settings is said at once, in one line, by whatever command: in the log's format where supervisors
// run it. Nothing of a secret is shown, and nothing is made. Package config holds each rule.
func TestFaultsAreSaidAtOnce(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2-hunter2"
	p := servicetest.NewEmptyProgram(t, "JWT_SECRET="+secret, "DATABASE_URL=mysql://u:"+secret+"@x/db", "DB_TIMEOUT=0", "DOCS=x", "OIDC_CLIENT_SECRET_FILE="+secret+secret)
	servicetest.WriteSecret(t, filepath.Join(p.Dir, ".env"), "LOG_FORMAT=json\nJWT_SECRET "+secret+"\n")
	for command, start := range map[string]string{
		"serve": "{", "migrate": "{", "demo": "worldevents: ", "user add alice": "worldevents: ", "session issue alice": "worldevents: ", "copy --to sqlite:x.db": "worldevents: ", "check": "fault: ",
	} {
		stdout, stderr, status := p.Run(strings.Fields(command)...)
		if status != 1 || stdout != "" && command != "check" || !strings.HasPrefix(stderr, start) || strings.Count(stderr, "\n") != 1 && command != "check" {
			t.Errorf("%s: status %d, %s", command, status, stderr)
		}
		for _, fault := range []string{".env:2: must be", "JWT_SECRET: key 1", "DATABASE_URL: must", "DB_TIMEOUT: must", "DOCS: must", "OIDC_CLIENT_SECRET_FILE: must"} {
			if !strings.Contains(stderr, fault) {
				t.Errorf("%s does not say %q: %s", command, fault, stderr)
			}
		}
		if strings.Contains(stdout+stderr, "hunter2") {
			t.Errorf("%s shows a secret: %s%s", command, stdout, stderr)
		}
	}
	if files, err := os.ReadDir(p.Dir); err != nil || len(files) != 1 {
		t.Errorf("refused, yet left %v: %v", files, err)
	}
	// The driver finds these.
	for _, url := range []string{"postgres://u:" + secret + "@[x", "postgres://u:" + secret + "@h:port/db"} {
		stdout, stderr, status := servicetest.NewEmptyProgram(t, "DATABASE_URL="+url).Run("user", "list")
		if status != 1 || stdout != "" || !servicetest.OneLine(stderr, "worldevents: DATABASE_URL: ") || strings.Contains(stderr, "hunter2") {
			t.Errorf("%s: %d %q", url, status, stderr)
		}
	}
}

// Each warning is a line of the log: as JSON in production, as text in development.
func TestWarningsAreLogged(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		env    []string
		format string
		want   []string
	}{
		{[]string{"APP_ENV=production", "DATABASE_URL=", "JWT_SECRETS=" + string(servicetest.Key)}, `(?m)^{.*"level":"WARN","msg":"(\w+)`, []string{"JWT_SECRETS", "BASE_URL", "DATABASE_URL", "OIDC_ISSUER", "there"}}, // was no database
		{[]string{fmt.Sprintf("LISTEN_ADDR=:%d", servicetest.FreePort(t))}, `(?m)^time=.* level=WARN msg="(\w+)`, []string{"LISTEN_ADDR"}},
	} {
		log := servicetest.NewProgram(t, test.env...).ServeReady().Log.String()
		var got []string
		for _, warning := range regexp.MustCompile(test.format).FindAllStringSubmatch(log, -1) {
			if warning[1] != "not" { // asking too early gets a response "not ready", and is logged as well
				got = append(got, warning[1])
			}
		}
		if !slices.Equal(got, test.want) || strings.Contains(log, string(servicetest.Key)) {
			t.Errorf("warnings %q, want %q: %s", got, test.want, log)
		}
	}
}
