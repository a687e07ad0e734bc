package model

import (
	"errors"
	"fmt"
)

// finding is a fault of the service. The kind is the same each time, without ids and numbers.
type finding struct{ kind, text string }

func (f *finding) Error() string { return f.text }

func findingf(format string, args ...any) *finding {
	err := fmt.Errorf(format, args...)
	kind := format
	var inner *finding
	if errors.As(err, &inner) {
		kind += ": " + inner.kind
	}
	return &finding{kind, err.Error()}
}

func findingOf(err error) *finding {
	var f *finding
	if errors.As(err, &f) {
		return f
	}
	return &finding{"the test's own work fails", err.Error()}
}
