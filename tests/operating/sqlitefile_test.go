package operating

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

// The files of SQLite are their owner's alone from the moment they exist, whatever the umask.
func TestSQLiteFileMode(t *testing.T) {
	t.Parallel()
	for _, umask := range []string{"000", "022", "777"} {
		for _, args := range [][]string{{"serve"}, {"migrate"}, {"demo"}} {
			t.Run(umask+" "+strings.Join(args, " "), func(t *testing.T) {
				t.Parallel()
				p := servicetest.NewEmptyProgram(t)
				file := filepath.Join(p.Dir, "worldevents.db")
				command := p.Command(args...)
				command.Args = append([]string{"sh", "-c", "umask " + umask + ` && exec "$0" "$@"`}, command.Args...)
				command.Path = "/bin/sh"
				if args[0] != "serve" {
					command.Run()
					onlyOwner(t, file)
					return
				}
				startHere(t, command, p.Getenv("ADMIN_ADDR"), "/readyz", "HTTP/1.1 200 ")
				onlyOwner(t, file, file+"-wal", file+"-shm")
			})
		}
	}
}

func onlyOwner(t *testing.T, files ...string) {
	t.Helper()
	for _, file := range files {
		servicetest.Is(t, servicetest.Must(os.Stat(file))(t).Mode(), 0o600, "the mode of %s", file)
	}
}

// No file is made before the umask keeps others from it, and none changes its mode later.
func TestSQLiteFileIsMadePrivate(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		servicetest.Missing(t, "%v", err)
	}
	p := servicetest.NewEmptyProgram(t)
	command := p.Command("migrate")
	trace := filepath.Join(p.Dir, "trace")
	command.Args = append([]string{"strace", "-f", "-o", trace, "-e", "trace=umask,open,openat,creat,chmod,fchmod,fchmodat"}, append([]string{command.Path}, command.Args[1:]...)...)
	command.Path = strace
	if out, err := command.CombinedOutput(); err != nil {
		servicetest.Missing(t, "strace: %v: %s", err, out)
	}
	text := servicetest.Must(os.ReadFile(trace))(t)
	kept, made := false, 0
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.Contains(line, " umask("):
			kept = strings.Contains(line, " umask(077)") || strings.Contains(line, " umask(077 <unfinished")
		case strings.Contains(line, "chmod(") && strings.Contains(line, "worldevents.db"):
			t.Errorf("%s", line)
		case strings.Contains(line, "worldevents.db") && strings.Contains(line, "O_CREAT"):
			made++
			servicetest.True(t, kept, "the umask keeps others from %s", line)
		}
	}
	servicetest.True(t, made > 0, "a file is made: %s", text)
}

// Any path works as SQLite reads it, and links are followed.
func TestSQLitePaths(t *testing.T) {
	t.Parallel()
	elsewhere := t.TempDir()
	for path, file := range map[string]string{
		"a.db":                              "a.db",
		"./a.db":                            "a.db",
		"what?mode=memory#x.db":             "what?mode=memory#x.db",
		"100%25.db":                         "100%25.db",
		"a b&c=ä.db":                        "a b&c=ä.db",
		"file:a.db":                         "file:a.db",
		elsewhere + "/absolute.db":          elsewhere + "/absolute.db",
		"//" + elsewhere + "/empty-host":    elsewhere + "/empty-host",
		"//localhost" + elsewhere + "/host": elsewhere + "/host",
		"link.db":                           "target.db",
		"missing/a.db":                      "",
		"//example.org" + elsewhere + "/x":  "",
		"//nowhere.db":                      "",
		"folder":                            "",
	} {
		t.Run(path, func(t *testing.T) {
			p := servicetest.NewProgram(t, "DATABASE_URL=sqlite:"+path)
			servicetest.NoError(t, errors.Join(os.Symlink("target.db", filepath.Join(p.Dir, "link.db")), os.Mkdir(filepath.Join(p.Dir, "folder"), 0o700)))
			_, stderr, status := p.Run("migrate")
			if file == "" {
				if status != 1 || !servicetest.OneLine(stderr, "unable to open database file") && !servicetest.OneLine(stderr, "its folder does not exist") && !servicetest.OneLine(stderr, "invalid uri authority") {
					t.Errorf("%d %q", status, stderr)
				}
				for _, stray := range []string{"/nowhere.db", "/example.org", elsewhere + "/x"} {
					_, err := os.Lstat(stray)
					servicetest.True(t, errors.Is(err, fs.ErrNotExist), "nothing is left at %s", stray)
				}
				return
			}
			if !filepath.IsAbs(file) {
				file = filepath.Join(p.Dir, file)
			}
			servicetest.Is(t, status, 0, "%q", stderr)
			onlyOwner(t, file)
		})
	}
}
