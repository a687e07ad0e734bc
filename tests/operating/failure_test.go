package operating

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

// The error that ends serve or migrate is one line in the format of the log, with all faults of the settings, whatever else
// is wrong with them. Other commands say theirs in plain words.
func TestFailureInFormatOfLog(t *testing.T) {
	t.Parallel()
	bad := []string{"DB_MAX_CONNS=0", "MAX_IN_FLIGHT=x", "LOG_LEVEL=loud", "DB_TIMEOUT=\"\u2028"}
	names := []string{"DB_MAX_CONNS: ", "MAX_IN_FLIGHT: ", "LOG_LEVEL: ", "DB_TIMEOUT: "}
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
			stdout, stderr, status := servicetest.NewProgram(t, slices.Concat(bad, test.env)...).Run(test.command)
			if status != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 {
				t.Fatalf("status %d, %q, %q", status, stdout, stderr)
			}
			text := stderr
			if test.json {
				var line struct{ Time, Level, Msg, Command, Error string }
				if err := json.Unmarshal([]byte(stderr), &line); err != nil || line.Time == "" || line.Level != "ERROR" || line.Msg != "failed" || line.Command != test.command {
					t.Errorf("%v: %s", err, stderr)
				}
				text = line.Error
			} else if !strings.Contains(stderr, " level=ERROR msg=failed command="+test.command+" error=") {
				t.Errorf("%q", stderr)
			}
			for _, name := range names {
				servicetest.Contains(t, text, name)
			}
		})
	}
	p := servicetest.NewProgram(t, "APP_ENV=production", "DB_MAX_CONNS=0")
	p.Fails("worldevents: DB_MAX_CONNS: ", "user", "add", "alice")
	if _, stderr, status := p.Run("serve", "--fast"); status != 1 || !strings.Contains(stderr, "worldevents: unknown flag --fast") {
		t.Errorf("%d %q", status, stderr)
	}
}
