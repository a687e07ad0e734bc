package deploy

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"worldevents/config/build"
	"worldevents/tests/servicetest"
)

// image is the image of a release, unpacked.
type image struct {
	root  string
	OCIv1 struct {
		Architecture string
		Config       struct {
			User, WorkingDir, StopSignal string
			Env, Entrypoint              []string
			Volumes, Labels              map[string]any
		}
	}
}

// buildah returns a function that runs it, with images of its own.
func buildah(t *testing.T) (run func(args ...string) string) {
	t.Helper()
	if os.Getuid() != 0 {
		servicetest.Missing(t, "only root may unpack and run an image")
	}
	tool, state := servicetest.Tool(t, "buildah"), t.TempDir()
	return func(args ...string) string {
		t.Helper()
		command := exec.Command(tool, append([]string{"--storage-driver", "vfs", "--root", state + "/root", "--runroot", state + "/run"}, args...)...)
		var stderr strings.Builder
		command.Stderr = &stderr
		out, err := command.Output()
		if err != nil {
			if strings.Contains(stderr.String(), "operation not permitted") {
				servicetest.Missing(t, "buildah may not unpack here: %s", stderr.String())
			}
			t.Fatalf("buildah %q: %v\n%s%s", args, err, out, stderr.String())
		}
		return strings.TrimSpace(string(out))
	}
}

// unpackImage has a tool for containers unpack the image.
func unpackImage(t *testing.T, run func(...string) string, name string) (i image) {
	t.Helper()
	container := run("from", "--pull-never", name)
	servicetest.NoError(t, json.Unmarshal([]byte(run("inspect", "--type", "container", container)), &i))
	i.root = run("mount", container)
	return i
}

// healthcheck returns what Docker runs to see whether a container lives. Tools that know the OCI alone do not show it.
func healthcheck(t *testing.T, archive string) []string {
	t.Helper()
	file := servicetest.Must(os.Open(archive))(t)
	defer file.Close()
	for entries := tar.NewReader(file); ; {
		header := servicetest.Must(entries.Next())(t) // else no image is for amd64
		var config struct {
			Architecture string
			Config       struct{ Healthcheck struct{ Test []string } }
		}
		if header.Size < 1<<16 && json.NewDecoder(entries).Decode(&config) == nil && config.Architecture == "amd64" {
			return config.Config.Healthcheck.Test
		}
	}
}

// under returns the program as the image runs it: with a volume for what it keeps, and nothing of this machine.
func (i image) under(t *testing.T, volume string) *servicetest.Program {
	t.Helper()
	config := i.OCIv1.Config
	p := servicetest.NewProgram(t).At(contained(t, i.root, config.User, config.WorkingDir, map[string]string{config.WorkingDir: volume}))
	// All that a container has is what the image sets, and what it is given.
	p.Env = append(config.Env, "APP_ENV=development", "JWT_SECRET="+string(servicetest.Key), "LISTEN_ADDR="+p.Getenv("LISTEN_ADDR"), "ADMIN_ADDR="+p.Getenv("ADMIN_ADDR"))
	return p
}

// contained writes a script that runs /worldevents of a root as a container does: the root is read-only but for what is mounted,
// which is there by the folder of the container, and the process is the user's.
func contained(t *testing.T, root, owner, dir string, mounts map[string]string) (script string) {
	t.Helper()
	unshare := servicetest.Tool(t, "unshare")
	if out, err := exec.Command(unshare, "--mount", "true").CombinedOutput(); err != nil {
		servicetest.Missing(t, "this machine allows no mounts: %s", out)
	}
	var bind strings.Builder
	for at, volume := range mounts {
		fmt.Fprintf(&bind, "mount --bind %s %s%s\n", volume, root, at)
	}
	user, group, _ := strings.Cut(owner, ":")
	return writeScript(t, "container", fmt.Sprintf(`exec %[1]s --mount sh -eu -c '
mount --bind %[2]s %[2]s
%[3]smount -o remount,bind,ro %[2]s
exec %[1]s --root=%[2]s --wd=%[4]s --setgid=%[6]s --setuid=%[5]s /worldevents "$@"' container "$@"
`, unshare, root, bind.String(), dir, user, group))
}

// The image is small, holds the program alone, and serves as a user without rights from a root that is read-only. What it keeps
// is in its volume, and there when the container is gone.
func testImage(t *testing.T, archive string) {
	i := unpackImage(t, buildah(t), "oci-archive:"+archive)
	if info, err := os.Stat(archive); err != nil || info.Size() > 25<<20 {
		t.Errorf("the archive: %v %v", info, err)
	}
	config := i.OCIv1.Config
	servicetest.Is(t, config.Labels["org.opencontainers.image.version"], any(build.Version), "the label of the version")
	for _, label := range []string{"title", "description", "revision", "created"} {
		if config.Labels["org.opencontainers.image."+label] == "" {
			t.Errorf("there is no label %s", label)
		}
	}
	probe := healthcheck(t, archive)
	want := append(slices.Clone(config.Entrypoint), "health", "--live")
	if len(probe) == 0 || probe[0] != "CMD" || !slices.Equal(probe[1:], want) {
		t.Errorf("the container is asked by %q", probe)
	}
	servicetest.Contains(t, readAll(t, filepath.Join(i.root, "worldevents")), "ISRG Root X1") // an authority of certificates
	testRuns(t, i)
}

// testRuns runs an image: it has the program alone, and what it is to run with.
func testRuns(t *testing.T, i image) {
	config := i.OCIv1.Config
	if user, group, _ := strings.Cut(config.User, ":"); user == "0" || user != group || strings.Trim(user, "0123456789") != "" {
		t.Errorf("user %q is not a number or root's", config.User)
	}
	if _, kept := config.Volumes[config.WorkingDir]; !kept || config.StopSignal != "SIGTERM" || i.OCIv1.Architecture != "amd64" {
		t.Errorf("%+v", i.OCIv1)
	}
	var files []string
	filepath.WalkDir(i.root, func(path string, entry fs.DirEntry, _ error) error {
		if !entry.IsDir() {
			files = append(files, strings.TrimPrefix(path, i.root))
		}
		return nil
	})
	if len(files) != 2 {
		t.Errorf("the image has %q", files)
	}
	info := servicetest.Must(os.Stat(filepath.Join(i.root, config.WorkingDir)))(t)
	owner := info.Sys().(*syscall.Stat_t)
	servicetest.Is(t, fmt.Sprintf("%d:%d", owner.Uid, owner.Gid), config.User, "whom the volume is made for")

	volume := t.TempDir()
	servicetest.NoError(t, os.Chown(volume, int(owner.Uid), int(owner.Gid)))
	p := i.under(t, volume)
	s := p.ServeReady()
	cookies := p.Issue("alice")
	s.Is(200, "POST", servicetest.Plaza, servicetest.EventBody, cookies)
	p.MustRun("check")
	p.MustRun("health", "--live")
	p.MustCopy("sqlite:backup.db")
	if _, stderr, status := p.Run("copy", "--to", "sqlite:/backup.db"); status == 0 {
		t.Errorf("the root is not read-only: %s", stderr)
	}
	s.Stop()
	list := i.under(t, volume).ServeReady().Is(200, "GET", servicetest.Plaza, "", cookies)
	servicetest.Contains(t, list, `"name":"Chess"`)
	for _, name := range []string{"worldevents.db", "backup.db"} {
		if info, err := os.Stat(filepath.Join(volume, name)); err != nil || info.Sys().(*syscall.Stat_t).Uid != owner.Uid {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
}
