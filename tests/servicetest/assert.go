package servicetest

import (
	"fmt"
	"reflect"
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
