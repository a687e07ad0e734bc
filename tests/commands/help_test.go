package commands

import (
	"os/exec"
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
	leaves := regexp.MustCompile(`(?m)^  ([a-z]+(?: [a-z]+)?)(?: [<\[-].*)?$`).FindAllStringSubmatch(help[strings.Index(help, "Commands:"):], -1)
	if len(leaves) < 20 {
		t.Fatalf("found %v in %s", leaves, help)
	}
	p.MustRun("demo")
	p.MustRun("user", "add", "dave")
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
		if name == "serve" || name == "copy" {
			continue
		}
		before := p.With() // each example finds alice and the demo's first event
		switch name {
		case "user add":
			before.Run("user", "remove", "alice")
		case "event show", "event edit", "event remove", "demo":
		default:
			before.Run("user", "add", "alice")
		}
		words := strings.TrimPrefix(example, "worldevents ")
		command := exec.Command("sh", "-c", `exec "$0" `+words, p.Command().Path)
		command.Dir, command.Env = p.Dir, p.Env
		var stderr strings.Builder
		command.Stderr = &stderr
		if err := command.Run(); err != nil {
			t.Errorf("%s: %v %s", example, err, stderr.String())
		}
		if changes := change.MatchString(" " + name); changes != servicetest.IsAudit(stderr.String()) && name != "user unblock" {
			t.Errorf("%s: a change is %v, stderr %q", example, changes, stderr.String())
		}
	}
}

// Only serve, migrate and demo make or change the schema; the others say what is missing.
func TestCommandsNeedSchema(t *testing.T) {
	eachProgram(t, func(t *testing.T, p *servicetest.Program) {
		for _, command := range []string{"user list", "user add x", "session issue x", "session revoke --all", "event prune --before 2020-01-01T00:00:00Z"} {
			fails(t, p, "run worldevents migrate", strings.Fields(command)...)
		}
		if names := folderNames(t, p.Dir); names != "" {
			t.Errorf("they made %s", names)
		}
	})
}
