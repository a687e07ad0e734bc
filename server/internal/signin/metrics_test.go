package signin

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"worldevents/server/internal/observe"
)

// internal is a table in which all errors are this service's.
func internal(error) (observe.Kind, string) {
	return observe.Kind{Status: http.StatusInternalServerError}, ""
}

// A sign-in whose client hung up has not ended.
func TestSignInOfClientGone(t *testing.T) {
	s := &Service{Options: Options{Problem: internal}}
	if outcome := s.failure(fmt.Errorf("sign in: %w", context.Canceled)); outcome != "" {
		t.Errorf("it counts as %s", outcome)
	}
}
