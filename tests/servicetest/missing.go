package servicetest

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// Missing skips a test that needs what this machine does not have or allow, and says so on the terminal also where tests
// pass. With CI=true, where nothing may be skipped, it fails the test.
func Missing(tb testing.TB, format string, args ...any) {
	tb.Helper()
	why := fmt.Sprintf(format, args...)
	if os.Getenv("CI") == "true" {
		tb.Fatal(why)
	}
	fmt.Fprintf(os.Stderr, "\n!!! %s IS SKIPPED: %s\n\n", tb.Name(), why)
	tb.Skip(why)
}

// Tool returns the path of a program. Where there is none it is Missing.
func Tool(tb testing.TB, name string) (path string) {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name) // not in everybody's PATH
	}
	if err != nil {
		Missing(tb, "%s is not installed", name)
	}
	return path
}
