package servicetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var binary struct {
	once sync.Once
	dir  string
	err  error
}

// WriteExecutable writes a program or a script. No process begins meanwhile: it would have the file open for writing until it has become
// another program, and whoever starts the file then is told ETXTBSY.
func WriteExecutable(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	NoError(t, os.WriteFile(path, []byte(text), 0o755))
}

// Binary is the path of the program: that of TEST_PROGRAM, else one that it builds, once for all tests of a process.
func Binary(tb testing.TB) string {
	tb.Helper()
	if path := os.Getenv("TEST_PROGRAM"); path != "" {
		if _, err := os.Stat(path); err != nil { // which has go test run the tests again when the program has changed
			tb.Fatal(err)
		}
		return path
	}
	root := Root(tb)
	binary.once.Do(func() {
		if binary.dir, binary.err = os.MkdirTemp("", "worldevents"); binary.err != nil {
			return
		}
		build := exec.Command("go", "build", "-o", filepath.Join(binary.dir, "worldevents"), ".")
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			binary.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if binary.err != nil {
		tb.Fatal(binary.err)
	}
	return filepath.Join(binary.dir, "worldevents")
}

func removeBinary() { os.RemoveAll(binary.dir) }

// Program is the real program in a folder of its own.
type Program struct {
	// Dir is the working directory.
	Dir string
	// Env is the whole environment, as NAME=value.
	Env []string

	tb   testing.TB
	path string
}

// NewProgram prepares the program with development settings, a key, the migrated SQLite file of the folder, free ports, and no
// limit of writes: tests write more than a person does.
// Later values of env win.
func NewProgram(tb testing.TB, env ...string) *Program {
	tb.Helper()
	p := NewEmptyProgram(tb, env...)
	if p.Getenv("DATABASE_URL") == ownFile {
		writeTemplate(tb, filepath.Join(p.Dir, strings.TrimPrefix(ownFile, "sqlite:")))
	}
	return p
}

const ownFile = "sqlite:worldevents.db"

// NewEmptyProgram is NewProgram with nothing in the folder.
func NewEmptyProgram(tb testing.TB, env ...string) *Program {
	tb.Helper()
	return &Program{Dir: tb.TempDir(), tb: tb, path: Binary(tb), Env: append([]string{
		"GOGC=" + os.Getenv("GOGC"),
		"APP_ENV=development", "JWT_SECRET=" + string(Key), "DATABASE_URL=" + ownFile, "DB_TIMEOUT=20s", "WRITE_RATE=0",
		"LISTEN_ADDR=" + FreeAddress(tb), "ADMIN_ADDR=" + FreeAddress(tb),
	}, env...)}
}

// For returns the same program, whose failures are those of tb.
func (p *Program) For(tb testing.TB) *Program {
	other := *p
	other.tb = tb
	return &other
}

// With returns the same program in the same folder with more environment.
func (p *Program) With(env ...string) *Program {
	other := *p
	other.Env = append(slices.Clone(p.Env), env...)
	return &other
}

// Another is a second instance of the program: with other ports, in the same folder.
func (p *Program) Another() *Program {
	return p.With("LISTEN_ADDR="+FreeAddress(p.tb), "ADMIN_ADDR="+FreeAddress(p.tb))
}

// At returns the program with another binary, in the same folder with the same environment.
func (p *Program) At(path string) *Program {
	other := *p
	other.path = path
	return &other
}

// Getenv returns a variable of the program's environment.
func (p *Program) Getenv(name string) (value string) {
	for _, pair := range p.Env {
		if v, ok := strings.CutPrefix(pair, name+"="); ok {
			value = v
		}
	}
	return value
}

// Command prepares a run.
func (p *Program) Command(args ...string) *exec.Cmd {
	command := exec.Command(p.path, args...)
	command.Dir, command.Env = p.Dir, p.Env
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command
}

// StartCommand starts a command, which may ask for a signal when its parent ends (Pdeathsig). That comes when the thread ends that
// started it, and threads end with goroutines that are locked to them: so one is, for as long as the command runs.
func StartCommand(command *exec.Cmd) (ended <-chan struct{}, err error) {
	started, waited := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(waited)
		err := command.Start()
		if started <- err; err == nil {
			command.Wait()
		}
	}()
	return waited, <-started
}

// Run runs a command to its end, which must come within half a minute.
func (p *Program) Run(args ...string) (stdout, stderr string, status int) {
	p.tb.Helper()
	command := p.Command(args...)
	var out, err bytes.Buffer
	command.Stdout, command.Stderr = &out, &err
	ended, fault := StartCommand(command)
	if fault != nil {
		p.tb.Fatal(fault)
	}
	kill := time.AfterFunc(time.Minute, func() { command.Process.Kill() })
	defer kill.Stop()
	<-ended
	return out.String(), err.String(), command.ProcessState.ExitCode()
}

// MustRun runs a command that must succeed and say nothing on stderr but what it has changed, in one line, and returns
// what it prints.
func (p *Program) MustRun(args ...string) string {
	p.tb.Helper()
	begun := time.Now()
	stdout, stderr, status := p.Run(args...)
	if time.Since(begun) > 5*time.Second { // a command that takes so long says every now and then how far it is
		stderr = stderr[strings.LastIndexByte(strings.TrimSuffix(stderr, "\n"), '\n')+1:]
	}
	if status != 0 || stderr != "" && !IsAudit(stderr) {
		p.tb.Fatalf("%q: status %d, stderr %s", args, status, stderr)
	}
	return stdout
}

// IsAudit reports whether text is the one line that a change by a command leaves.
func IsAudit(text string) bool {
	return strings.Count(text, "\n") == 1 && (strings.Contains(text, " msg=audit action=") || strings.Contains(text, `"msg":"audit","action":"`))
}

// Process is a running serve.
type Process struct {
	// URL and AdminURL are its listeners.
	URL, AdminURL string
	// Log is what it has written to stderr.
	Log *Log

	tb      testing.TB
	command *exec.Cmd
	ended   <-chan struct{}
}

// Serve starts serve and waits until it responds on the admin listener. It is killed when the test ends.
func (p *Program) Serve() *Process {
	p.tb.Helper()
	log := new(Log)
	return p.serve(log, log)
}

// ServeTo is ServeReady with another stdout and stderr, a pipe or a file. Log stays empty.
func (p *Program) ServeTo(out *os.File) *Process {
	p.tb.Helper()
	s := p.serve(new(Log), out)
	s.Readiness(200, Soon)
	return s
}

func (p *Program) serve(log *Log, out io.Writer) *Process {
	p.tb.Helper()
	scheme := "http"
	if from := p.Getenv("TLS"); from != "" && from != "off" {
		scheme = "https"
	}
	s := &Process{
		URL: scheme + "://" + p.Getenv("LISTEN_ADDR"), AdminURL: "http://" + p.Getenv("ADMIN_ADDR"),
		Log: log, tb: p.tb, command: p.Command("serve"),
	}
	s.command.Stdout, s.command.Stderr = out, out
	var err error
	if s.ended, err = StartCommand(s.command); err != nil {
		p.tb.Fatal(err)
	}
	p.tb.Cleanup(func() {
		s.command.Process.Kill()
		<-s.ended
	})
	s.await("/livez", 200, 20*time.Second)
	return s
}

// ServeReady is Serve, and waits for readiness. The log then has all that the start has said.
func (p *Program) ServeReady() *Process {
	p.tb.Helper()
	s := p.Serve()
	s.Readiness(200, Soon)
	if level := p.Getenv("LOG_LEVEL"); level == "" || level == "info" || level == "debug" {
		s.AwaitMessage("ready")
	}
	return s
}

// Says waits until the log has a text n times, which may come after what it says has been seen. More is a failure.
func (s *Process) Says(text string, n int) {
	s.tb.Helper()
	times := func() int { return strings.Count(s.Log.String(), text) }
	Within(s.tb, time.Minute, fmt.Sprintf("the log says %d times %s", n, text), func() bool { return times() >= n })
	Is(s.tb, times(), n, "times that the log says %s", text)
}

// AwaitMessage waits until the log has a line with this message, which may come after what it says has been seen. It returns
// the log.
func (s *Process) AwaitMessage(message string) (log string) {
	s.tb.Helper()
	Within(s.tb, time.Minute, "the log says "+message, func() bool {
		log = s.Log.String()
		return strings.Contains(log, `"msg":"`+message+`"`) || strings.Contains(log, " msg="+message+" ") || strings.Contains(log, " msg="+message+"\n")
	})
	return log
}

// AwaitLog waits until the log has a text, which may come after what it says has been seen.
func (s *Process) AwaitLog(text string) {
	s.tb.Helper()
	s.awaitLog(0, text)
}

func (s *Process) awaitLog(from int, text string) {
	s.tb.Helper()
	Within(s.tb, time.Minute, "the log says "+text, func() bool { return strings.Contains(s.Log.String()[from:], text) })
}

// HangUp sends SIGHUP, and waits until the log says this of it.
func (s *Process) HangUp(want string) {
	s.tb.Helper()
	from := len(s.Log.String())
	s.Signal(syscall.SIGHUP)
	s.awaitLog(from, want)
}

// Readiness waits until /readyz has this status. If it does not in time, the test fails with what it said last, and with the log.
func (s *Process) Readiness(status int, patience time.Duration) {
	s.tb.Helper()
	s.await("/readyz", status, patience)
}

func (s *Process) await(path string, status int, patience time.Duration) {
	s.tb.Helper()
	err := poll(patience, func() error {
		if got, body := s.AdminBody(path); got != status && !s.hasEnded() {
			return fmt.Errorf("%d %s", got, body)
		}
		return nil
	})
	if err == nil && s.hasEnded() {
		err = errors.New("the process has ended")
	}
	if err != nil {
		s.tb.Fatalf("%s is not %d after %v: %v; the log: %s", path, status, patience, err, s.Log)
	}
}

func (s *Process) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// Admin asks the admin listener and returns the status, 0 without a response.
func (s *Process) Admin(path string) int {
	status, _ := s.AdminBody(path)
	return status
}

// AdminBody is Admin with the body, or with the error.
func (s *Process) AdminBody(path string) (int, string) {
	return NewBrowser(s.AdminURL, plain).Do("GET", path, "").read()
}

// Signal sends a signal.
func (s *Process) Signal(signal os.Signal) { s.command.Process.Signal(signal) }

// Wait waits for the end of the process and returns its exit status, -1 after a deadly signal.
func (s *Process) Wait(patience time.Duration) int {
	s.tb.Helper()
	select {
	case <-s.ended:
		return s.command.ProcessState.ExitCode()
	case <-time.After(patience):
		s.tb.Fatalf("still running after %v: %s", patience, s.Log)
		return 0
	}
}

// plain opens a connection for each request: a process that is gone leaves none behind.
var plain = &http.Transport{DisableKeepAlives: true}

// Do sends a request with these cookies to the public listener and returns status and body, or 0 and the error.
func (s *Process) Do(method, path, body, cookies string) (int, string) {
	return s.Ask(method, path, body, cookies).read()
}

// OneLine reports whether text is one line that contains what.
func OneLine(text, what string) bool {
	return strings.Count(text, "\n") == 1 && strings.HasSuffix(text, "\n") && strings.Contains(text, what)
}
