package operating

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

const unitFile = "deploy/worldevents.service"

// unitValue returns what a line of the unit sets.
func unitValue(t *testing.T, name string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(shipped(t, unitFile))
	if found == nil {
		t.Fatalf("the unit does not set %s", name)
	}
	return found[1]
}

// systemd kills a service that has not ended by then.
func TestUnitLetsTheServiceEnd(t *testing.T) {
	t.Parallel()
	kill, err := time.ParseDuration(unitValue(t, "TimeoutStopSec"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^#SHUTDOWN_TIMEOUT=(.*)$`).FindStringSubmatch(shipped(t, ".env.example"))
	if stop, err := time.ParseDuration(found[1]); err != nil || kill < stop+5*time.Second {
		t.Errorf("the service takes up to %v to stop, and is killed after %v: %v", stop, kill, err)
	}
	found = regexp.MustCompile(`(?m)^#MAX_WAITING=(.*)$`).FindStringSubmatch(shipped(t, ".env.example"))
	files, _ := strconv.Atoi(unitValue(t, "LimitNOFILE"))
	if waiting, err := strconv.Atoi(found[1]); err != nil || files < 2*waiting {
		t.Errorf("%d requests may wait, with %d open files: %v", waiting, files, err)
	}
}

// The secrets that the unit hands over are where the service looks for them.
func TestUnitHandsOverSecrets(t *testing.T) {
	t.Parallel()
	unit := shipped(t, unitFile)
	for _, all := range []bool{false, true} {
		if all {
			unit = regexp.MustCompile(`(?m)^#(LoadCredential|Environment)=`).ReplaceAllString(unit, "$1=")
		}
		credentials := t.TempDir()
		p := servicetest.NewProgram(t, "OIDC_ISSUER=http://127.0.0.1:1", "OIDC_CLIENT_ID=worldevents")
		secrets := map[string]string{"jwt_secret": string(servicetest.Key), "database_url": "sqlite:worldevents.db", "oidc_client_secret": "s3cret-of-tests"}
		for _, line := range regexp.MustCompile(`(?m)^LoadCredential=(\w+):/etc/worldevents/(\w+)$`).FindAllStringSubmatch(unit, -1) {
			if line[1] != line[2] || secrets[line[1]] == "" {
				t.Errorf("%s", line[0])
			}
			if err := os.WriteFile(filepath.Join(credentials, line[1]), []byte(secrets[line[1]]+"\n"), 0o400); err != nil {
				t.Fatal(err)
			}
		}
		for _, line := range regexp.MustCompile(`(?m)^Environment=((\w+)_FILE=.*)$`).FindAllStringSubmatch(unit, -1) {
			p.Env = slices.DeleteFunc(p.Env, func(pair string) bool { return strings.HasPrefix(pair, line[2]+"=") })
			p.Env = append(p.Env, strings.ReplaceAll(line[1], "%d", credentials))
		}
		p.ServeReady()
	}
}
