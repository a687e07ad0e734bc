package deploy

import (
	"path/filepath"
	"testing"
)

// Each alert fires where it should and not where it should not, as alerts.test.yml says.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	rules, tests := projectPath(t, "deploy/alerts.yml"), projectPath(t, "tests/long/deploy/alerts.test.yml")
	output(t, "", "promtool", "check", "rules", "--lint=all", "--lint-fatal", rules)
	output(t, filepath.Dir(tests), "promtool", "test", "rules", filepath.Base(tests))
}
