package operating

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// unitValue returns what a line of the unit sets.
func unitValue(t *testing.T, name string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(servicetest.Shipped(t, servicetest.UnitFile))
	if found == nil {
		t.Fatalf("the unit does not set %s", name)
	}
	return found[1]
}

// systemd kills a service that has not ended by then.
func TestUnitLetsTheServiceEnd(t *testing.T) {
	t.Parallel()
	kill := servicetest.Must(time.ParseDuration(unitValue(t, "TimeoutStopSec")))(t)
	found := regexp.MustCompile(`(?m)^#SHUTDOWN_TIMEOUT=(.*)$`).FindStringSubmatch(servicetest.Shipped(t, ".env.example"))
	if stop, err := time.ParseDuration(found[1]); err != nil || kill < stop+5*time.Second {
		t.Errorf("the service takes up to %v to stop, and is killed after %v: %v", stop, kill, err)
	}
	found = regexp.MustCompile(`(?m)^#MAX_WAITING=(.*)$`).FindStringSubmatch(servicetest.Shipped(t, ".env.example"))
	files, _ := strconv.Atoi(unitValue(t, "LimitNOFILE"))
	if waiting, err := strconv.Atoi(found[1]); err != nil || files < 2*waiting {
		t.Errorf("%d requests may wait, with %d open files: %v", waiting, files, err)
	}
}
