package deploy

import (
	"os/exec"
	"path/filepath"
	"testing"

	"worldevents/tests/servicetest"
)

// Each alert fires where it should and not where it should not, as alerts.test.yml says.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	promtool := servicetest.Tool(t, "promtool")
	rules, tests := projectPath(t, "deploy/alerts.yml"), projectPath(t, "tests/long/deploy/alerts.test.yml")
	if out, err := exec.Command(promtool, "check", "rules", "--lint=all", "--lint-fatal", rules).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	command := exec.Command(promtool, "test", "rules", filepath.Base(tests))
	command.Dir = filepath.Dir(tests)
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
