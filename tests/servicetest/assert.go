package servicetest

import (
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
)

// NoError ends the test where there is an error.
func NoError(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Is fails the test, with what it is about, unless got is want.
func Is[T any](tb testing.TB, got, want T, about string, args ...any) {
	tb.Helper()
	if !reflect.DeepEqual(got, want) {
		tb.Errorf("%s:\n got %.2000s\nwant %.2000s", fmt.Sprintf(about, args...), fmt.Sprint(got), fmt.Sprint(want))
	}
}

// True fails the test, with what should be so, where it is not.
func True(tb testing.TB, ok bool, about string, args ...any) {
	tb.Helper()
	if !ok {
		tb.Errorf("not so: %.2000s", fmt.Sprintf(about, args...))
	}
}

// Must returns a value that came without an error, and ends the test of what came with one.
func Must[T any](value T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		NoError(tb, err)
		return value
	}
}

// Contains fails the test unless all parts are in text.
func Contains(tb testing.TB, text string, parts ...string) {
	tb.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			tb.Errorf("no %q in %.2000q", part, text)
		}
	}
}

// Lacks fails the test where one of the parts is in text.
func Lacks(tb testing.TB, text string, parts ...string) {
	tb.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			tb.Errorf("%q is in %.2000q", part, text)
		}
	}
}

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
