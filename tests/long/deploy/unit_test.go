package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// installedUnits are the units with the program where this machine has it.
func installedUnits(t *testing.T) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"worldevents.service", "worldevents-backup.service", "worldevents-prune.service", "worldevents-backup.timer", "worldevents-prune.timer"} {
		path := filepath.Join(dir, name)
		write(t, path, strings.ReplaceAll(servicetest.Shipped(t, "deploy/"+name), "/usr/local/bin/worldevents", servicetest.Binary(t)))
		paths = append(paths, path)
	}
	return paths
}

// systemd understands every line of the units, and finds what they start.
func TestUnitsAreValid(t *testing.T) {
	t.Parallel()
	analyze := servicetest.Tool(t, "systemd-analyze")
	if out, err := exec.Command(analyze, append([]string{"verify", "--man=no"}, installedUnits(t)...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// The sandbox of the units is as tight as it was: systemd calls below 2 "OK", and a service without any 9.6.
func TestUnitSandbox(t *testing.T) {
	t.Parallel()
	for _, unit := range installedUnits(t)[:3] {
		output(t, "", "systemd-analyze", "security", "--offline=true", "--threshold=17", "--no-pager", unit)
	}
}

// What the units start is not root, writes below /var/lib/worldevents alone, and finds its settings in a folder of root's.
func TestUnitsWriteOneFolder(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"worldevents.service", "worldevents-backup.service", "worldevents-prune.service"} {
		text := servicetest.Shipped(t, "deploy/"+name)
		for _, line := range []string{"User=worldevents", "StateDirectory=worldevents", "StateDirectoryMode=0700", "WorkingDirectory=/etc/worldevents", "UMask=0077", "ProtectSystem=strict"} {
			servicetest.Contains(t, text, "\n"+line+"\n")
		}
		if more := regexp.MustCompile(`(?m)^(ReadWritePaths|BindPaths|(Cache|Logs|Configuration)Directory)=.*|^Exec\w+=[-@:|]*[+!].*`).FindAllString(text, -1); len(more) > 0 {
			t.Errorf("%s has %q", name, more)
		}
	}
}

// Whatever a serving process asks of the kernel, the unit allows: system calls, kinds of sockets, memory. It serves, logs,
// rereads, writes and stops meanwhile.
func TestUnitAllowsWhatServeDoes(t *testing.T) {
	strace := servicetest.Tool(t, "strace")
	allowed := allowedCalls(t)
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL)
		trace := filepath.Join(t.TempDir(), "trace")
		s := p.At(writeScript(t, "worldevents", "exec "+strace+" -f -qq -o "+trace+" "+servicetest.Binary(t)+" \"$@\"\n")).ServeReady()
		id, _, _ := strings.Cut(readAll(t, trace), " ") // of the process that strace started, whose first line is execve
		pid := servicetest.Must(strconv.Atoi(id))(t)
		ended := false
		t.Cleanup(func() { // strace, killed, would leave it
			if !ended {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		})
		cookies := p.Issue("alice")
		for range 20 {
			s.Is(200, "POST", servicetest.Plaza, servicetest.EventBody, cookies)
		}
		s.Is(200, "GET", servicetest.Plaza, "", cookies)
		s.Admin("/metrics")
		syscall.Kill(pid, syscall.SIGHUP)
		s.Says("SIGHUP", 1)
		syscall.Kill(pid, syscall.SIGTERM)
		servicetest.Is(t, s.Wait(60*time.Second), 0, "exit status")
		ended = true
		refused := make(map[string]string)
		for _, line := range strings.Split(readAll(t, trace), "\n") {
			name, arguments, isCall := strings.Cut(strings.TrimLeft(line, "0123456789 "), "(")
			switch {
			case !isCall || !callName.MatchString(name): // what else strace says, such as ??? of a thread that was gone when it looked
			case name == "fchown" && os.Getuid() == 0: // SQLite, as root alone, gives its files the owner of the database
			case !slices.Contains(allowed, name):
				refused[name] = line
			case name == "socket" && !regexp.MustCompile(`^AF_(INET6?|UNIX),`).MatchString(arguments):
				refused[arguments[:min(len(arguments), 20)]] = line
			case strings.Contains(arguments, "PROT_WRITE|PROT_EXEC"):
				refused["PROT_EXEC"] = line
			}
		}
		for name, line := range refused {
			t.Errorf("%s: %s", name, line)
		}
	})
}

var callName = regexp.MustCompile(`^[a-z0-9_]+$`)

// allowedCalls returns the system calls that pass the unit's filters, which are groups of systemd's alone.
func allowedCalls(t *testing.T) []string {
	t.Helper()
	allowed := make(map[string]bool)
	for _, line := range regexp.MustCompile(`(?m)^SystemCallFilter=(~?)(.*)$`).FindAllStringSubmatch(readAll(t, projectPath(t, "deploy/worldevents.service")), -1) {
		for _, group := range strings.Fields(line[2]) {
			for _, name := range callsOf(t, group) {
				allowed[name] = line[1] == ""
			}
		}
	}
	// systemd always lets a program start.
	names := []string{"execve", "exit", "exit_group"}
	for name, is := range allowed {
		if is {
			names = append(names, name)
		}
	}
	if len(names) < 100 {
		t.Fatalf("allowed are only %q", names)
	}
	return names
}

// callsOf expands a group, and the groups in it.
func callsOf(t *testing.T, group string) (names []string) {
	t.Helper()
	for _, line := range strings.Split(output(t, "", "systemd-analyze", "syscall-filter", "--no-pager", group), "\n")[1:] {
		switch name := strings.TrimSpace(line); {
		case name == "" || strings.HasPrefix(name, "#"):
		case strings.HasPrefix(name, "@"):
			names = append(names, callsOf(t, name)...)
		default:
			names = append(names, name)
		}
	}
	return names
}
