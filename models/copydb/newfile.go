package copydb

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// newFile is a SQLite file that is being made: under another name in the same folder, and for its owner alone.
//
//	NAME.copying, locked ──(rows, indexes, compared)──▶ on disk ──publish──▶ NAME
//	      │
//	      └──(killed: the lock ends)──▶ the next copy begins with it anew
type newFile struct {
	name, temporary string
	f               *os.File // temporary, locked while this process lives
}

// sqliteSuffixes are those of the files that SQLite keeps beside a database. SQLite would take one that is left
// there for the new database's.
var sqliteSuffixes = []string{"-wal", "-shm", "-journal"}

// createNewFile makes a file that is to get name. It refuses a name that is taken, and one into which another
// copy is running. What a killed copy has left it empties.
func createNewFile(name string) (*newFile, error) {
	name, err := filepath.Abs(name)
	if err == nil {
		err = checkFree(name)
	}
	if err != nil {
		return nil, err
	}
	n := &newFile{name: name, temporary: name + ".copying"}
	if n.f, err = os.OpenFile(n.temporary, os.O_RDWR|os.O_CREATE, 0o600); err != nil { // the operator names the file
		return nil, err
	}
	if err := n.begin(); err != nil {
		n.f.Close()
		return nil, err
	}
	return n, nil
}

// begin locks the file and empties it. It touches none that could be anything else than what a copy has left.
func (n *newFile) begin() error {
	if !lockFile(n.f) || !n.isThere() { // another copy has published or removed it before it was locked
		return errors.New("another copy into it is running")
	}
	beginning := make([]byte, len(sqliteMagic))
	if read, _ := n.f.ReadAt(beginning, 0); read > 0 && beginning[0] != 0 && !bytes.Equal(beginning, []byte(sqliteMagic)) {
		return fmt.Errorf("%s is in the way: move it", n.temporary)
	}
	for _, suffix := range sqliteSuffixes {
		os.Remove(n.temporary + suffix)
	}
	return errors.Join(n.f.Truncate(0), n.f.Chmod(0o600)) // a umask may have taken the owner's bits
}

// checkFree refuses a name at which there is a file, or was a database whose log is left.
func checkFree(name string) error {
	if _, err := os.Lstat(name); err == nil {
		return errors.New("the file exists: name one that does not, or move it away")
	}
	for _, suffix := range sqliteSuffixes {
		if _, err := os.Lstat(name + suffix); err == nil {
			return fmt.Errorf("%s%s is left of another database: move it away", name, suffix)
		}
	}
	return nil
}

// sqliteMagic is the beginning of every SQLite file that is not empty
// (sqlite.org/fileformat.html#magic_header_string).
const sqliteMagic = "SQLite format 3\x00"

// isThere reports whether the temporary name still leads to the file, and does so without a symbolic link.
func (n *newFile) isThere() bool {
	opened, errOpened := n.f.Stat()
	named, errNamed := os.Lstat(n.temporary)
	return errOpened == nil && errNamed == nil && os.SameFile(opened, named)
}

// publish puts the file on disk and then gives it its name, so that no crash leaves half of it under that name.
func (n *newFile) publish() error {
	if err := errors.Join(n.f.Sync(), checkFree(n.name)); err != nil {
		return err
	}
	if err := os.Rename(n.temporary, n.name); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(n.name)) // the operator names it
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync() // the new name
}

// discard removes the file, unless it was published, and lets the lock go.
func (n *newFile) discard() {
	if n.isThere() {
		for _, suffix := range append(sqliteSuffixes, "") {
			os.Remove(n.temporary + suffix)
		}
	}
	n.f.Close()
}
