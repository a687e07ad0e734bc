package apart

import (
	"fmt"
	"strings"
	"testing"
)

// A panic reaches the goroutine that can respond to it, with the stack on which it was.
func TestPanic(t *testing.T) {
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "nil pointer") || !strings.Contains(text, "apart.TestPanic") {
			t.Errorf("recovered %q", text)
		}
	}()
	var nobody *error
	Run(func() error { return *nobody })
}
