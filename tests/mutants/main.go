// Command mutants breaks the code in small ways, one at a time, and expects tests to turn red: a test that stays green
// does not hold what it seems to.
//
//	go run ./tests/mutants [-n 5] [-seed N] [-run REGEXP] [-check]
//
// A mutant is a file patches/NAME.patch. It says what is broken, then the tests that must fail, all of them, then the
// change as `git diff -U1` prints it:
//
//	A refresh token is taken after it has expired.
//	Red: TestRefreshExpired TestSessionEdges
//	--- a/models/session.go
//	+++ b/models/session.go
//	@@ -120,3 +120,3 @@
//	…
//
// A test is found by its name, wherever it is. Where several packages have one of that name it is written with its
// folder, such as tests/provider/TestSignIn. To add a mutant, break the code, see the test fail, save the diff, and undo it.
//
// The mutants are made in a copy of the tree, which holds what git knows or would add. The program that tests start is
// built there, too.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// limit is how long the tests of a mutant may take. It catches a hang, which is no red test.
const limit = 10 * time.Minute

// mutant is a patch and the tests that must fail with it, by their folder.
type mutant struct {
	name, file string
	tests      map[string][]string
}

func main() {
	n := flag.Int("n", 0, "try that many mutants of all; 0 means all")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "chooses those `N` mutants")
	run := flag.String("run", "", "try the mutants whose names match this `regexp`")
	check := flag.Bool("check", false, "only see that every patch applies, and that its tests exist")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := try(ctx, *n, *seed, *run, *check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func try(ctx context.Context, n int, seed uint64, run string, check bool) error {
	root, err := git(ctx, ".", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	root = strings.TrimSpace(root)
	mutants, err := read(ctx, root)
	if err != nil || check {
		return err
	}
	pattern, err := regexp.Compile(run)
	if err != nil {
		return err
	}
	mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !pattern.MatchString(m.name) })
	if n > 0 && n < len(mutants) {
		fmt.Printf("%d of %d mutants: -n %d -seed %d\n", n, len(mutants), n, seed)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(mutants), func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] })
		mutants = mutants[:n]
	}
	if len(mutants) == 0 {
		return errors.New("no such mutant")
	}
	dir, err := copyTree(ctx, root)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return tryAll(ctx, dir, mutants)
}

// read reads all mutants. Its error names each that does not apply or names tests that do not exist.
func read(ctx context.Context, root string) (mutants []mutant, err error) {
	files, err := filepath.Glob(filepath.Join(root, "tests/mutants/patches/*.patch"))
	if err != nil {
		return nil, err
	}
	tests, err := findTests(ctx, root)
	if err != nil {
		return nil, err
	}
	var wrong []error
	for _, file := range files {
		m := mutant{name: strings.TrimSuffix(filepath.Base(file), ".patch"), file: file}
		_, err := git(ctx, root, "apply", "--check", file)
		if err == nil {
			err = m.readTests(tests)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", m.name, err))
		}
		mutants = append(mutants, m)
	}
	return mutants, errors.Join(wrong...)
}

// findTests returns the folders that have a test of each name.
func findTests(ctx context.Context, root string) (map[string][]string, error) {
	out, err := git(ctx, root, "grep", "--untracked", "-E", "^func Test[A-Za-z0-9_]*\\(t \\*testing", "--", "*_test.go")
	if err != nil {
		return nil, err
	}
	tests := make(map[string][]string)
	for line := range strings.Lines(out) {
		file, declaration, _ := strings.Cut(line, ":func ")
		name, _, _ := strings.Cut(declaration, "(")
		tests[name] = append(tests[name], path.Dir(file))
	}
	return tests, nil
}

func (m *mutant) readTests(all map[string][]string) error {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return err
	}
	m.tests = make(map[string][]string)
	for line := range strings.Lines(string(text)) {
		names, ok := strings.CutPrefix(line, "Red: ")
		if !ok {
			continue
		}
		for _, name := range strings.Fields(names) {
			folder, name := path.Split(name)
			folders := all[name]
			if folder = strings.TrimSuffix(folder, "/"); folder != "" {
				folders = slices.DeleteFunc(slices.Clone(folders), func(f string) bool { return f != folder })
			}
			if len(folders) != 1 {
				return fmt.Errorf("%d tests are called %s", len(folders), name)
			}
			m.tests[folders[0]] = append(m.tests[folders[0]], name)
		}
		return nil
	}
	return errors.New("no line begins with Red: and names tests")
}

// copyTree copies what git tracks or would add into a folder of its own.
func copyTree(ctx context.Context, root string) (string, error) {
	out, err := git(ctx, root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return "", err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		if err = copyFile(filepath.Join(root, name), filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			os.RemoveAll(dir)
			return "", err
		}
	}
	return dir, nil
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode().Perm())
}

// tryAll runs the tests of all mutants on the code as it is, where they must pass, and then on each mutant.
func tryAll(ctx context.Context, dir string, mutants []mutant) error {
	all := mutant{tests: make(map[string][]string)}
	for _, m := range mutants {
		for folder, names := range m.tests {
			all.tests[folder] = append(all.tests[folder], names...)
		}
	}
	begin := time.Now()
	if err := all.test(ctx, dir, "pass"); err != nil {
		return fmt.Errorf("without a mutant: %w", err)
	}
	fmt.Printf("%5.1f s  the tests pass without a mutant\n", time.Since(begin).Seconds())
	survived := 0
	for _, m := range mutants {
		begin := time.Now()
		err := m.try(ctx, dir)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		verdict := "red"
		if err != nil {
			survived++
			verdict = "NOT RED: " + err.Error()
		}
		fmt.Printf("%5.1f s  %s: %s\n", time.Since(begin).Seconds(), m.name, verdict)
	}
	if survived > 0 {
		return fmt.Errorf("%d of %d mutants turned no test red", survived, len(mutants))
	}
	fmt.Printf("all %d mutants turned their tests red\n", len(mutants))
	return nil
}

func (m *mutant) try(ctx context.Context, dir string) error {
	if _, err := git(ctx, dir, "apply", m.file); err != nil {
		return err
	}
	err := m.test(ctx, dir, "fail")
	_, undo := git(context.WithoutCancel(ctx), dir, "apply", "--reverse", m.file)
	return cmp.Or(err, undo)
}

// test runs the tests, folder by folder, and returns an error unless each of them ends as wanted.
func (m *mutant) test(ctx context.Context, dir, want string) error {
	for _, folder := range slices.Sorted(maps.Keys(m.tests)) {
		names := m.tests[folder]
		cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-vet=off", "-parallel=8", "-timeout="+limit.String(),
			"-run=^("+strings.Join(names, "|")+")$", "./"+folder)
		cmd.Dir, cmd.WaitDelay = dir, 10*time.Second
		// Without TEST_PROGRAM tests build the program, from the copy.
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TEST_PROGRAM=") })
		out, _ := cmd.Output() // which fails when a test does
		ends, log := readEvents(out)
		switch {
		case ends[""] == "":
			return fmt.Errorf("%s does not build or run:\n%s", folder, log)
		case strings.Contains(log, "panic: test timed out after"):
			return fmt.Errorf("%s hangs:\n%s", folder, log)
		}
		for _, name := range names {
			if end := cmp.Or(ends[name], "not run"); end != want {
				if want == "fail" {
					log = ""
				}
				return fmt.Errorf("%s in %s: %s\n%s", name, folder, end, log)
			}
		}
	}
	return nil
}

// readEvents reads what go test -json prints: how each test ended, and all of it, whose name is empty, unless it did not
// build; and the output.
func readEvents(out []byte) (ends map[string]string, log string) {
	ends = make(map[string]string)
	var text strings.Builder
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var event struct{ Action, Test, Output, FailedBuild string }
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			continue
		}
		switch event.Action {
		case "output", "build-output":
			text.WriteString(event.Output)
		case "pass", "fail", "skip":
			if event.FailedBuild == "" {
				ends[event.Test] = event.Action
			}
		}
	}
	return ends, text.String()
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	// A folder below a repository would have git apply files of that, or none.
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("git %s: %s", args[0], strings.TrimSpace(string(failed.Stderr)))
	}
	return string(out), err
}
