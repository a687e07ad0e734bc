package deploy

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"worldevents/config/build"
	"worldevents/tests/servicetest"
)

// commitCopy makes a repository of one commit of the project's files as they are now.
func commitCopy(t *testing.T) (dir string) {
	t.Helper()
	root, dir := servicetest.Root(t), t.TempDir()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case entry.Name() == "node_modules" || name == ".git" || name == "bin" || name == "dist":
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(dir, name), 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name), text, info.Mode())
	})
	if err != nil {
		t.Fatal(err)
	}
	inCopy(t, dir, nil, "git", "init", "--quiet")
	inCopy(t, dir, nil, "git", "add", "--all")
	inCopy(t, dir, nil, "git", "commit", "--quiet", "--message", "all")
	return dir
}

// inCopy runs a command that must succeed, without the settings that somebody has for git.
func inCopy(t *testing.T, dir string, env []string, name string, args ...string) {
	t.Helper()
	command := exec.Command(servicetest.Tool(t, name), args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_AUTHOR_DATE=2030-01-02T03:04:05Z",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org", "GIT_COMMITTER_DATE=2030-01-02T03:04:05Z")
	command.Env = append(command.Env, env...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// A program that is built twice, in two folders by two people with settings of their own, is the same to the byte, and
// knows its commit.
func TestReleaseTwice(t *testing.T) {
	t.Parallel()
	var programs, sums [2]string
	dir := commitCopy(t)
	other := filepath.Join(t.TempDir(), "elsewhere")
	inCopy(t, dir, nil, "git", "clone", "--quiet", dir, other)
	for i, env := range [][]string{
		{"TZ=UTC", "UNCHECKED=1"},
		{"TZ=Asia/Tokyo", "UNCHECKED=1", "GOTOOLCHAIN=local", "GOFLAGS=-buildvcs=false -ldflags=-X=main.x=y -tags=x", "GOAMD64=v3", "CGO_ENABLED=1"},
	} {
		dir := []string{dir, other}[i]
		inCopy(t, dir, env, "sh", "-c", `umask "$0" && .ci/release dist linux/amd64`, []string{"022", "077"}[i])
		programs[i] = filepath.Join(dir, "dist", "worldevents-"+build.Version+"-linux-amd64")
		sums[i] = readAll(t, filepath.Join(dir, "dist", "SHA256SUMS"))
		inCopy(t, filepath.Join(dir, "dist"), nil, "sha256sum", "--check", "--strict", "SHA256SUMS")
	}
	if one, two := readAll(t, programs[0]), readAll(t, programs[1]); one != two || sums[0] != sums[1] {
		t.Errorf("the programs differ: %s%s", sums[0], sums[1])
	}
	if text := readAll(t, programs[0]); strings.Contains(text, dir) || strings.Contains(text, servicetest.Root(t)) {
		t.Error("a path of the builder is in the program")
	}
	commit, err := exec.Command("git", "-C", dir, "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := "worldevents " + build.Version + "\ncommit " + strings.TrimSpace(string(commit)) + " 2030-01-02T03:04:05Z\ngo " + toolchain(t) + "\n"
	if got := servicetest.NewProgram(t).At(programs[0]).MustRun("version"); !strings.HasPrefix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	if file, err := elf.Open(programs[0]); err != nil {
		t.Error(err)
	} else {
		for _, part := range file.Progs {
			if part.Type == elf.PT_INTERP {
				t.Error("the program is not static")
			}
		}
		file.Close()
	}

	refuses := func(env, word string) {
		t.Helper()
		command := exec.Command(filepath.Join(dir, ".ci/release"), "dist", "linux/amd64")
		command.Dir, command.Env = dir, append(os.Environ(), env)
		if out, err := command.CombinedOutput(); err == nil || !strings.Contains(string(out), word) {
			t.Errorf("%v, %s, want %s", err, out, word)
		}
	}
	// Somebody who has another Go, and cannot fetch that of the release.
	refuses("PATH="+without(t, toolchain(t))+":"+os.Getenv("PATH"), "release: go"+toolchain(t)+" is needed")
	if err := os.WriteFile(filepath.Join(dir, "new.go"), []byte("package main\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refuses("", "new.go")
}

// toolchain is the version of Go that go.mod names for releases.
func toolchain(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^toolchain go(.+)$`).FindStringSubmatch(readAll(t, projectPath(t, "go.mod")))
	if found == nil {
		t.Fatal("go.mod names no toolchain")
	}
	return found[1]
}

// without is a folder with a go command that says what the real one says where it cannot fetch a toolchain, and is the real
// one in all else.
func without(t *testing.T, version string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nif [ \"$GOTOOLCHAIN\" = go%s ]; then echo \"go: download go%s: toolchain not available\" >&2; exit 1; fi\nexec %s \"$@\"\n",
		version, version, servicetest.Tool(t, "go"))
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// With cgo a second SQLite, in C, would be linked. The build says so instead, but under the race detector, which needs cgo.
func TestBuildWithoutCgo(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, want string }{{"", "[cgo.go]"}, {"-race", "[]"}} {
		list := exec.Command(servicetest.Tool(t, "go"), strings.Fields("list "+test.args+" -f {{.CgoFiles}} worldevents/config/build")...)
		list.Dir, list.Env = servicetest.Root(t), append(os.Environ(), "CGO_ENABLED=1")
		if out, err := list.Output(); err != nil || strings.TrimSpace(string(out)) != test.want {
			t.Errorf("%q: %s, %v, want %s", test.args, out, err, test.want)
		}
	}
	compiler, err := exec.Command(servicetest.Tool(t, "go"), "env", "CC").Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath(strings.TrimSpace(string(compiler))); err != nil {
		return // whoever has no C compiler builds without cgo
	}
	build := exec.Command(servicetest.Tool(t, "go"), "build", "worldevents/config/build")
	build.Dir, build.Env = servicetest.Root(t), append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err == nil || !strings.Contains(string(out), "set CGO_ENABLED=0") {
		t.Errorf("%s, %v", out, err)
	}
}
