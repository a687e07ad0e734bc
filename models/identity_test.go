package models

import (
	"testing"

	"worldevents/models/internal/names"
)

// Candidates for one name never look like each other, or a new user would miss some of them.
func TestCandidatesDiffer(t *testing.T) {
	for _, name := range []string{"alice", "l", "O", "m", "user\u200b", "1", "²"} {
		folded, skeletons, n := make(map[string]bool), make(map[string]bool), 0
		for candidate := range usernameCandidates(name) {
			folded[names.Fold(candidate)], skeletons[names.Skeleton(candidate)] = true, true
			n++
		}
		if len(folded) != n || len(skeletons) != n {
			t.Errorf("%q: %d candidates, %d and %d looks", name, n, len(folded), len(skeletons))
		}
	}
}
