package deploy

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"worldevents/config/build"
	"worldevents/tests/servicetest"
)

// commitCopy makes a repository of one commit of the project's files as they are now.
func commitCopy(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	output(t, servicetest.Root(t), "sh", "-c", `tar -cf - --exclude=node_modules --exclude=./.git --exclude=./bin --exclude=./dist . | tar -xf - -C "$0"`, dir)
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

// A release that is built twice, in two folders by two people with settings of their own, is the same to the byte. Its programs
// know their commit, its bills say what is in them, and its image runs.
func TestRelease(t *testing.T) {
	t.Parallel()
	servicetest.Tool(t, "npm")
	var sums [2]string
	dir := commitCopy(t)
	other := filepath.Join(t.TempDir(), "elsewhere")
	inCopy(t, dir, nil, "git", "clone", "--quiet", dir, other)
	key := filepath.Join(t.TempDir(), "key")
	inCopy(t, dir, nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key)
	for i, env := range [][]string{
		{"TZ=UTC", "UNCHECKED=1", "SIGNING_KEY=" + key},
		{"TZ=Asia/Tokyo", "UNCHECKED=1", "GOTOOLCHAIN=local", "GOFLAGS=-buildvcs=false -ldflags=-X=main.x=y -tags=x", "GOOS=darwin", "GOAMD64=v3", "CGO_ENABLED=1"},
	} {
		dir := []string{dir, other}[i]
		inCopy(t, dir, env, "sh", "-c", `umask "$0" && .ci/release dist linux/amd64 image client collection launcher`, []string{"022", "077"}[i])
		sums[i] = readAll(t, filepath.Join(dir, "dist", "SHA256SUMS"))
		inCopy(t, filepath.Join(dir, "dist"), nil, "sha256sum", "--check", "--strict", "SHA256SUMS")
	}
	if sums[0] != sums[1] || strings.Count(sums[0], "\n") != 8 {
		t.Errorf("the releases differ: %s%s", sums[0], sums[1])
	}
	dist := filepath.Join(dir, "dist")
	program := filepath.Join(dist, "worldevents-"+build.Version+"-linux-amd64")
	if text := readAll(t, program); strings.Contains(text, dir) || strings.Contains(text, servicetest.Root(t)) {
		t.Error("a path of the builder is in the program")
	}
	want := "worldevents " + build.Version + "\ncommit " + output(t, dir, "git", "rev-parse", "HEAD") + " 2030-01-02T03:04:05Z\ngo " + toolchain(t) + "\n"
	if got := servicetest.NewProgram(t).At(program).MustRun("version"); !strings.HasPrefix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	file := servicetest.Must(elf.Open(program))(t)
	defer file.Close()
	if slices.ContainsFunc(file.Progs, func(part *elf.Prog) bool { return part.Type == elf.PT_INTERP }) {
		t.Error("the program is not static")
	}
	t.Run("bill", func(t *testing.T) { testBill(t, program) })
	t.Run("signature", func(t *testing.T) { testSignature(t, dist, key) })
	t.Run("launcher", func(t *testing.T) { testLauncher(t, dist, program) })
	t.Run("image", func(t *testing.T) { testImage(t, filepath.Join(dist, "worldevents-"+build.Version+"-image.tar")) })

	refuses := func(env, word string) {
		t.Helper()
		command := exec.Command(filepath.Join(dir, ".ci/release"), "dist", "linux/amd64")
		command.Dir, command.Env = dir, append(os.Environ(), env)
		if out, err := command.CombinedOutput(); err == nil || !strings.Contains(string(out), word) {
			t.Errorf("%v, %s, want %s", err, out, word)
		}
	}
	// Somebody has another Go, and cannot fetch that of the release.
	unavailable := writeScript(t, "go", fmt.Sprintf(`if [ "$GOTOOLCHAIN" = go%[1]s ]; then
  echo "go: download go%[1]s: toolchain not available" >&2
  exit 1
fi
exec %[2]s "$@"
`, toolchain(t), servicetest.Tool(t, "go")))
	refuses("PATH="+filepath.Dir(unavailable)+":"+os.Getenv("PATH"), "release: go"+toolchain(t)+" is needed")
	write(t, filepath.Join(dir, "new.go"), "package main\n")
	refuses("", "new.go")
}

// testBill holds the program's bill of materials against the program and against go.mod.
func testBill(t *testing.T, program string) {
	var bill struct {
		SerialNumber string
		Metadata     struct {
			Timestamp string
			Component struct{ Hashes []struct{ Content string } }
		}
		Components   []struct{ Name, Version, PURL string }
		Dependencies []struct {
			Ref       string
			DependsOn []string
		}
	}
	servicetest.NoError(t, json.Unmarshal([]byte(readAll(t, program+".cdx.json")), &bill))
	if bill.SerialNumber != "" || bill.Metadata.Timestamp != "" {
		t.Errorf("each bill would differ: %q %q", bill.SerialNumber, bill.Metadata.Timestamp)
	}
	servicetest.Is(t, bill.Metadata.Component.Hashes[0].Content, fmt.Sprintf("%x", sha256.Sum256([]byte(readAll(t, program)))), "the program of the bill")
	listed := make(map[string]string) // versions by name
	for _, c := range bill.Components {
		listed[c.Name] = c.Version
	}
	info := servicetest.Must(buildinfo.ReadFile(program))(t)
	for _, module := range info.Deps {
		if listed[module.Path] != module.Version {
			t.Errorf("%s %s is listed as %q", module.Path, module.Version, listed[module.Path])
		}
	}
	if listed["std"] != toolchain(t) || listed["swagger-ui-dist"] == "" || len(listed) != len(info.Deps)+2 {
		t.Errorf("%d modules, listed: %v", len(info.Deps), listed)
	}
	reached := map[string]bool{bill.Dependencies[0].Ref: true} // from the program, which comes first
	for range bill.Dependencies {
		for _, d := range bill.Dependencies {
			for _, on := range d.DependsOn {
				reached[on] = reached[on] || reached[d.Ref]
			}
		}
	}
	for _, c := range bill.Components {
		if !reached[c.PURL] {
			t.Errorf("nothing depends on %s", c.PURL)
		}
	}
}

// testSignature verifies as docs/operate/install.md says, and sees that a checksum that is changed is refused.
func testSignature(t *testing.T, dist, key string) {
	signers := filepath.Join(t.TempDir(), "signers")
	write(t, signers, "releases@example.org "+readAll(t, key+".pub"))
	verify := func(text string) error {
		command := exec.Command("ssh-keygen", "-Y", "verify", "-f", signers, "-I", "releases@example.org", "-n", "file", "-s", filepath.Join(dist, "SHA256SUMS.sig"))
		command.Stdin = strings.NewReader(text)
		return command.Run()
	}
	sums := readAll(t, filepath.Join(dist, "SHA256SUMS"))
	servicetest.NoError(t, verify(sums))
	if verify(sums+" ") == nil {
		t.Error("the signature is of anything")
	}
}

// testLauncher sees that the packages for npm have the program, as one that runs, and that no script comes with them.
// tests/launcher installs and starts such packages.
func testLauncher(t *testing.T, dist, program string) {
	platform := packed(t, filepath.Join(dist, "worldevents-linux-x64-"+build.Version+".tgz"))
	if file := platform["package/bin/worldevents"]; file.mode != 0o755 || file.text != readAll(t, program) {
		t.Errorf("the program of the package has mode %o and %d bytes", file.mode, len(file.text))
	}
	launcher := packed(t, filepath.Join(dist, "worldevents-"+build.Version+".tgz"))
	for _, files := range []map[string]packedFile{platform, launcher} {
		var manifest struct {
			Version string
			Scripts map[string]string
		}
		if err := json.Unmarshal([]byte(files["package/package.json"].text), &manifest); err != nil || manifest.Version != build.Version || manifest.Scripts != nil {
			t.Errorf("%+v, %v", manifest, err)
		}
	}
}

// packedFile is a file of a package for npm.
type packedFile struct {
	mode int64
	text string
}

// packed returns the files of a package by their names.
func packed(t *testing.T, path string) map[string]packedFile {
	t.Helper()
	unzipped := servicetest.Must(gzip.NewReader(strings.NewReader(readAll(t, path))))(t)
	files := make(map[string]packedFile)
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if err == io.EOF {
			return files
		}
		servicetest.NoError(t, err)
		files[header.Name] = packedFile{header.Mode, string(servicetest.Must(io.ReadAll(archive))(t))}
	}
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
