package servicetest

import (
	"fmt"
	"os"
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
