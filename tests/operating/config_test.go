package operating

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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
			_, twice := listed[m[1]]
			servicetest.True(t, !twice, "%s lists %s once", where, m[1])
			listed[m[1]] = m[2]
		}
		if where == ".env.example" {
			listed["APP_ENV"] = inCode["APP_ENV"] // that of the example is another
		}
		servicetest.Is(t, listed, inCode, "the settings of %s", where)
	}
	servicetest.Contains(t, example, "\nAPP_ENV=development\n")
	servicetest.Contains(t, example, "\nJWT_SECRET=\n")
	inCode["TEST_PROGRAM"], inCode["TEST_DATABASE_URL"], inCode["TEST_POSTGRES_BIN"], inCode["SIGNING_KEY"] = "", "", "", "" // of the tests and the build
	inCode["ON_ERROR_STOP"] = ""                                                                                             // of psql
	inCode["SSL_CERT_FILE"], inCode["RENEWED_LINEAGE"], inCode["CAP_NET_BIND_SERVICE"] = "", "", ""                          // of package crypto/x509, certbot and Linux
	for _, page := range append(servicetest.Pages(t), ".env.example") {
		for _, name := range regexp.MustCompile(`\b[A-Z]+(_[A-Z]+)+\b`).FindAllString(servicetest.Shipped(t, page), -1) {
			_, known := inCode[name]
			servicetest.True(t, known, "%s, which %s names, is a setting", name, page)
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
			isThere := slices.ContainsFunc([]string{"tests/" + name + "_test.go", "tests/" + name, name + "_test.go", name},
				func(path string) bool { return servicetest.IsShipped(t, path) })
			servicetest.True(t, isThere, "%s is there: %s", name, row)
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
		"serve": "{", "migrate": "{", "demo": "worldevents: ", "user add alice": "worldevents: ", "copy --to sqlite:x.db": "worldevents: ", "check": "fault: ",
	} {
		stdout, stderr, status := p.Run(strings.Fields(command)...)
		if status != 1 || stdout != "" && command != "check" || !strings.HasPrefix(stderr, start) || strings.Count(stderr, "\n") != 1 && command != "check" {
			t.Errorf("%s: status %d, %s", command, status, stderr)
		}
		for _, fault := range []string{".env:2: must be", "JWT_SECRET: key 1", "DATABASE_URL: must", "DB_TIMEOUT: must", "DOCS: must", "OIDC_CLIENT_SECRET_FILE: must"} {
			servicetest.Contains(t, stderr, fault)
		}
		servicetest.Lacks(t, stdout+stderr, "hunter2")
	}
	servicetest.Is(t, folderOf(t, p.Dir), []string{".env"}, "files")
	// The driver finds this.
	_, stderr, status := servicetest.NewEmptyProgram(t, "DATABASE_URL=postgres://u:"+secret+"@h:port/db").Run("user", "list")
	servicetest.Is(t, status, 1, "exit status")
	servicetest.True(t, servicetest.OneLine(stderr, "worldevents: DATABASE_URL: "), "%s", stderr)
	servicetest.Lacks(t, stderr, "hunter2")
}

// Each warning is a line of the log: as JSON in production, as text in development.
func TestWarningsAreLogged(t *testing.T) {
	t.Parallel()
	check := func(format string, want []string, env ...string) {
		log := servicetest.NewProgram(t, env...).ServeReady().Log.String()
		var got []string
		for _, warning := range regexp.MustCompile(format).FindAllStringSubmatch(log, -1) {
			if warning[1] != "not" { // asking too early gets a response "not ready", and is logged as well
				got = append(got, warning[1])
			}
		}
		servicetest.Is(t, got, want, "warnings in %s", log)
		servicetest.Lacks(t, log, string(servicetest.Key))
	}
	check(`(?m)^{.*"level":"WARN","msg":"(\w+)`, []string{"JWT_SECRETS", "BASE_URL", "DATABASE_URL", "OIDC_ISSUER", "there"}, // was no database
		"APP_ENV=production", "DATABASE_URL=", "JWT_SECRETS="+string(servicetest.Key))
	check(`(?m)^time=.* level=WARN msg="(\w+)`, []string{"LISTEN_ADDR"}, fmt.Sprintf("LISTEN_ADDR=:%d", servicetest.FreePort(t)))
}

// The error that ends serve or migrate is one line in the format of the log, whatever is wrong with the settings. Other commands say theirs
// in plain words.
func TestFailureInFormatOfLog(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, command string
		env           []string
		json          bool
	}{
		{"serve in production", "serve", []string{"APP_ENV=production"}, true},
		{"migrate in production", "migrate", []string{"APP_ENV=production"}, true},
		{"serve in development", "serve", []string{"APP_ENV=development"}, false},
		{"serve as json", "serve", []string{"LOG_FORMAT=json"}, true},
		{"migrate as text", "migrate", []string{"APP_ENV=production", "LOG_FORMAT=text"}, false},
		{"in no format", "serve", []string{"LOG_FORMAT=xml"}, true},
		{"in no environment", "serve", []string{"APP_ENV=nowhere"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, status := servicetest.NewProgram(t, slices.Concat([]string{"LOG_LEVEL=loud", "DB_TIMEOUT=\"\u2028"}, test.env)...).Run(test.command)
			if status != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 {
				t.Fatalf("status %d, %q, %q", status, stdout, stderr)
			}
			text := stderr
			if test.json {
				var line struct{ Time, Level, Msg, Command, Error string }
				servicetest.NoError(t, json.Unmarshal([]byte(stderr), &line))
				servicetest.True(t, line.Time != "", "the line has a time: %s", stderr)
				servicetest.Is(t, []string{line.Level, line.Msg, line.Command}, []string{"ERROR", "failed", test.command}, "the line")
				text = line.Error
			} else {
				servicetest.Contains(t, stderr, " level=ERROR msg=failed command="+test.command+" error=")
			}
			servicetest.Contains(t, text, "LOG_LEVEL: ")
			servicetest.Contains(t, text, "DB_TIMEOUT: ")
		})
	}
	_, stderr, status := servicetest.NewProgram(t, "APP_ENV=production").Run("serve", "--fast")
	servicetest.Is(t, status, 1, "exit status")
	servicetest.Contains(t, stderr, "worldevents: unknown flag --fast")
}

// systemd lets the service take as long for its end, and open as many files, as the settings do.
func TestUnitLetsTheServiceEnd(t *testing.T) {
	t.Parallel()
	setting := func(file, name string) string {
		found := regexp.MustCompile(`(?m)^#?` + name + `=(.*)$`).FindStringSubmatch(servicetest.Shipped(t, file))
		if found == nil {
			t.Fatalf("%s does not set %s", file, name)
		}
		return found[1]
	}
	kill := servicetest.Must(time.ParseDuration(setting(servicetest.UnitFile, "TimeoutStopSec")))(t)
	if stop := servicetest.Must(time.ParseDuration(setting(".env.example", "SHUTDOWN_TIMEOUT")))(t); kill < stop+5*time.Second {
		t.Errorf("the service takes up to %v to stop, and is killed after %v", stop, kill)
	}
	files := servicetest.Must(strconv.Atoi(setting(servicetest.UnitFile, "LimitNOFILE")))(t)
	if waiting := servicetest.Must(strconv.Atoi(setting(".env.example", "MAX_WAITING")))(t); files < 2*waiting {
		t.Errorf("%d requests may wait, with %d open files", waiting, files)
	}
}
