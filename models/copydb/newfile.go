package copydb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// newFile is a SQLite file that is being made: under another name in the same folder, so that a link gives it
// its own name at once, and for its owner alone.
//
//	NAME.copying, locked ──(rows, indexes, compared)──▶ on disk ──publish──▶ NAME
//	      │
//	      └──(killed: the lock ends)──▶ the next copy removes it
type newFile struct {
	name, temporary string
	f               *os.File // temporary, locked while this process lives

	stopFlushing func() error
	flushed      atomic.Int64 // bytes that are on disk, at least
}

// sqliteSuffixes are those of the files that SQLite keeps beside a database. SQLite would take one that is left
// there for the new database's.
var sqliteSuffixes = []string{"-wal", "-shm", "-journal"}

// createNewFile makes a file that is to get name. It refuses a name that is taken, and one into which another
// copy is running. It removes what a killed copy has left.
func createNewFile(name string) (*newFile, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	for _, suffix := range sqliteSuffixes {
		if strings.HasSuffix(name, suffix) {
			return nil, fmt.Errorf("a name with %s at its end is SQLite's own: choose another", suffix)
		}
	}
	if err := checkFree(name); err != nil {
		return nil, err
	}
	n := &newFile{name: name, temporary: name + ".copying"}
	if err := n.removeLeftover(); err != nil {
		return nil, err
	}
	if n.f, err = os.OpenFile(n.temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil { // the operator names the file
		if errors.Is(err, fs.ErrExist) {
			return nil, errCopying
		}
		return nil, err
	}
	if !lockFile(n.f) || !isFileAt(n.f, n.temporary) { // another copy took it for a leftover before it was locked
		n.f.Close()
		return nil, errCopying
	}
	n.stopFlushing = n.flushAsItGrows()
	if err := n.f.Chmod(0o600); err != nil { // a umask may have taken the owner's bits
		n.discard()
		return nil, err
	}
	return n, nil
}

// flushEvery is how many bytes of a new file may be in memory and not on disk, unless the disk is slower than
// the copy. If they were all written at the end, every commit of a database on the same disk would wait behind
// them for seconds.
const flushEvery = 16 << 20

// flushAsItGrows puts on disk what SQLite writes to the file, until stop is called. stop returns the first
// error, since the kernel reports a failed write only once (fsync(2)).
func (n *newFile) flushAsItGrows() (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var flushing errgroup.Group
	flushing.Go(func() error {
		for {
			if err := n.flush(); err != nil || ctx.Err() != nil {
				return err
			}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	return func() error {
		cancel()
		return flushing.Wait()
	}
}

// flush puts the file on disk if it has grown by flushEvery since the last time.
func (n *newFile) flush() error {
	info, err := n.f.Stat()
	if err != nil || info.Size()-n.flushed.Load() < flushEvery {
		return err
	}
	if err := n.f.Sync(); err != nil {
		return err
	}
	n.flushed.Store(info.Size())
	return nil
}

var errCopying = errors.New("another copy into it is running")

// checkFree refuses a name at which there is a file, or was a database whose log is left.
func checkFree(name string) error {
	for _, suffix := range append([]string{""}, sqliteSuffixes...) {
		switch _, err := os.Lstat(name + suffix); {
		case err == nil && suffix == "":
			return errors.New("the file exists: name one that does not, or move it away")
		case err == nil:
			return fmt.Errorf("%s%s is left of another database: move it away", name, suffix)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return nil
}

// sqliteMagic is the beginning of every SQLite file that is not empty
// (sqlite.org/fileformat.html#magic_header_string).
const sqliteMagic = "SQLite format 3\x00"

// removeLeftover removes what a killed copy has left. It touches no file that could be anything else: only a
// file of this name that is empty or SQLite's, and that nobody has locked.
func (n *newFile) removeLeftover() error {
	info, err := os.Lstat(n.temporary)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	notOurs := fmt.Errorf("%s is in the way: move it", n.temporary)
	if !info.Mode().IsRegular() {
		return notOurs
	}
	f, err := os.OpenFile(n.temporary, os.O_RDWR, 0) // the operator names the file
	if errors.Is(err, fs.ErrNotExist) {
		return errCopying // another copy had it, and has ended since
	}
	if err != nil {
		return err
	}
	defer f.Close()
	magic := make([]byte, len(sqliteMagic))
	if read, err := f.ReadAt(magic, 0); err != nil && !errors.Is(err, io.EOF) || read > 0 && string(magic) != sqliteMagic && magic[0] != 0 {
		return notOurs
	}
	if !canLock || !lockFile(f) || !isFileAt(f, n.temporary) {
		return errCopying
	}
	n.remove()
	return nil
}

// isFileAt reports whether its name still leads to f.
func isFileAt(f *os.File, name string) bool {
	opened, errOpened := f.Stat()
	named, errNamed := os.Lstat(name)
	return errOpened == nil && errNamed == nil && os.SameFile(opened, named)
}

// publish puts the file on disk and then gives it its name, so that no crash leaves half of it under that name.
// It replaces no file that has come meanwhile.
func (n *newFile) publish() error {
	if err := errors.Join(n.stopFlushing(), n.f.Sync()); err != nil {
		return err
	}
	if err := checkFree(n.name); err != nil {
		return err
	}
	// A link never replaces a file, as a new name does. Not all file systems have links.
	err := os.Link(n.temporary, n.name)
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	if err != nil {
		if err := os.Rename(n.temporary, n.name); err != nil {
			return err
		}
	}
	n.discard()
	return syncFolder(filepath.Dir(n.name))
}

// syncFolder puts the names in a folder on disk.
func syncFolder(name string) error {
	folder, err := os.Open(name) // the operator names it
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

// discard removes the temporary name, and lets the lock go.
func (n *newFile) discard() {
	if n.f == nil {
		return
	}
	n.stopFlushing()
	if isFileAt(n.f, n.temporary) {
		n.remove()
	}
	n.f.Close()
	n.f = nil
}

func (n *newFile) remove() {
	for _, suffix := range append(sqliteSuffixes, "") {
		os.Remove(n.temporary + suffix)
	}
}
