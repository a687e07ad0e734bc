package copydb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// newFile is a SQLite file that is being made: as NAME.copying in the same folder, and for its owner alone. It gets its name once it is
// on disk.
type newFile struct {
	name, temporary string
	f               *os.File // temporary
	published       bool
}

// sqliteSuffixes are those of the files that SQLite keeps beside a database. SQLite would take one that is left
// there for the new database's.
var sqliteSuffixes = []string{"-wal", "-shm", "-journal"}

// createNewFile makes a file that is to get name. It refuses a name that is taken, and one into which another copy is running or was killed.
func createNewFile(name string) (*newFile, error) {
	name, err := filepath.Abs(name)
	if err == nil {
		err = checkFree(name)
	}
	if err != nil {
		return nil, err
	}
	n := &newFile{name: name, temporary: name + ".copying"}
	n.f, err = os.OpenFile(n.temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) // the operator names the file
	if errors.Is(err, os.ErrExist) {
		err = fmt.Errorf("%s is there: another copy into it is running, or one was killed: then remove it", n.temporary)
	}
	if err != nil {
		return nil, err
	}
	n.removeBeside() // what a killed copy has left
	return n, nil
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

// publish puts the file on disk and then gives it its name, so that no crash leaves half of it under that name.
func (n *newFile) publish() error {
	if err := errors.Join(n.f.Sync(), checkFree(n.name)); err != nil {
		return err
	}
	if err := os.Rename(n.temporary, n.name); err != nil {
		return err
	}
	n.published = true
	folder, err := os.Open(filepath.Dir(n.name)) // the operator names it
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync() // the new name
}

// discard removes the file, unless it was published.
func (n *newFile) discard() {
	if !n.published {
		n.removeBeside()
		os.Remove(n.temporary)
	}
	n.f.Close()
}

// removeBeside removes what SQLite keeps beside the file.
func (n *newFile) removeBeside() {
	for _, suffix := range sqliteSuffixes {
		os.Remove(n.temporary + suffix)
	}
}
