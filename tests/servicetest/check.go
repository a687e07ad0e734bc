package servicetest

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// Checked is what check prints.
type Checked struct {
	OK       bool
	Findings []struct{ Level, About, Text string }
	Settings map[string]string
}

// Check runs the command, whose status and words must agree with what it prints.
func Check(t *testing.T, p *Program) (result Checked, stderr string) {
	t.Helper()
	stdout, stderr, status := p.Run("check")
	if err := json.Unmarshal([]byte(stdout), &result); err != nil {
		t.Fatalf("%v: %s %s", err, stdout, stderr)
	}
	if result.OK != (status == 0) || result.OK != !strings.Contains(stderr, "worldevents: check: faults: ") {
		t.Errorf("status %d: %s %s", status, stdout, stderr)
	}
	for _, secret := range []string{string(Key), "s3cr3t"} {
		Lacks(t, stdout+stderr, secret)
	}
	for _, f := range result.Findings {
		if line := f.Level + ": " + f.About + ": " + f.Text + "\n"; strings.Contains(stderr, line) != (f.Level != "ok") {
			t.Errorf("%q and stderr %s", line, stderr)
		}
	}
	// The PostgreSQL of tests need not survive a crash.
	return result, regexp.MustCompile(`(?m)^warning: .*: (fsync|synchronous_commit)=off: .*\n`).ReplaceAllString(stderr, "")
}

// Has fails the test unless there is a finding of the level whose words match.
func (c Checked) Has(t *testing.T, level, words string) {
	t.Helper()
	for _, f := range c.Findings {
		if f.Level == level && regexp.MustCompile(words).MatchString(f.About+": "+f.Text) {
			return
		}
	}
	t.Errorf("no %s %q: %+v", level, words, c.Findings)
}

// Sound fails the test unless check finds no fault.
func Sound(t *testing.T, p *Program) {
	t.Helper()
	result, stderr := Check(t, p)
	Is(t, result.OK, true, "no fault, and check says %s", stderr)
}

// Finds runs the command, and fails the test unless it finds that.
func Finds(t *testing.T, p *Program, level, words string) {
	t.Helper()
	result, _ := Check(t, p)
	result.Has(t, level, words)
}
