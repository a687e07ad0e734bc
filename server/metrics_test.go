package server

import (
	"context"
	"fmt"
	"testing"
)

// A sign-in whose client hung up has not ended.
func TestSignInOfClientGone(t *testing.T) {
	if outcome := signInOutcome(new(request), fmt.Errorf("sign in: %w", context.Canceled)); outcome != "" {
		t.Errorf("it counts as %s", outcome)
	}
}
