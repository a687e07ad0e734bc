package copydb

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// Of many who make one file one has it, locked under its temporary name, and none leaves that behind.
func TestNewFileIsOfOne(t *testing.T) {
	name := filepath.Join(t.TempDir(), "test.db")
	var makers sync.WaitGroup
	var has atomic.Int64
	for range 8 {
		makers.Go(func() {
			for range 500 {
				n, err := createNewFile(name)
				if err != nil {
					continue
				}
				if has.Add(1) != 1 || !n.isThere() {
					t.Error("a file of two, or of none")
				}
				has.Add(-1)
				n.discard()
			}
		})
	}
	makers.Wait()
	if left, _ := filepath.Glob(name + "*"); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}
