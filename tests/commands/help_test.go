package commands

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

// The help of each command has an example, which works as it is printed, and a change leaves one audit line.
func TestHelpExamples(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t)
	help := p.MustRun("--help")
	leaves := regexp.MustCompile(`(?m)^  ([a-z-]+(?: [a-z]+)?)(?: [<\[-].*)?$`).FindAllStringSubmatch(help[strings.Index(help, "Commands:"):], -1)
	if len(leaves) < 20 {
		t.Fatalf("found %v in %s", leaves, help)
	}
	p.MustRun("demo")
	p.MustRun("user", "add", "dave")
	appendTo(t, filepath.Join(p.Dir, "audit.log"), "") // for replay-audit
	change := regexp.MustCompile(` (add|issue|revoke|rename|block|edit|remove)( |$)`)
	for _, leaf := range leaves {
		name := leaf[1]
		text := p.MustRun(append(strings.Fields(name), "--help")...)
		_, example, ok := strings.Cut(text, "\nExample:\n  ")
		example = strings.TrimSuffix(example, "\n")
		if !ok || !strings.HasPrefix(example, "worldevents "+name) || strings.Contains(example, "\n") {
			t.Errorf("%s: %q in %s", name, example, text)
			continue
		}
		if name == "serve" || name == "copy" || name == "health" { // which asks a service
			continue
		}
		if name == "user add" { // the other examples find alice and the demo's first event
			p.MustRun("user", "remove", "alice")
		}
		words := strings.TrimPrefix(example, "worldevents ")
		command := exec.Command("sh", "-c", `exec "$0" `+words, p.Command().Path)
		command.Dir, command.Env = p.Dir, p.Env
		var stderr strings.Builder
		command.Stderr = &stderr
		servicetest.Is(t, command.Run(), nil, "the error of %s, which says %s", example, &stderr)
		if changes := change.MatchString(" " + name); changes != servicetest.IsAudit(stderr.String()) && name != "user unblock" {
			t.Errorf("%s: a change is %v, stderr %q", example, changes, stderr.String())
		}
		if name == "user rename" || name == "user remove" {
			p.MustRun("user", "add", "alice")
		}
	}
}
