package copydb

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// What a copy writes goes to disk while it writes. An error of that is one of the copy, although the kernel tells of it only
// once.
func TestNewFileIsFlushedAsItGrows(t *testing.T) {
	n, err := createNewFile(filepath.Join(t.TempDir(), "copy.db"))
	if err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(n.temporary, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	for size := int64(flushEvery); size <= 3*flushEvery; size += flushEvery {
		if err := writer.Truncate(size); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(20 * time.Second); n.flushed.Load() != size; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d bytes are on disk, of %d", n.flushed.Load(), size)
			}
		}
	}
	n.f.Close()
	if n.stopFlushing() == nil {
		t.Fatal("a closed file is flushed")
	}
	if n.f, err = os.OpenFile(n.temporary, os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	if n.publish() == nil {
		t.Error("the copy is there, and nobody knows what of it is on disk")
	}
	n.discard()
}

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
				if has.Add(1) != 1 || !isFileAt(n.f, n.temporary) {
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
