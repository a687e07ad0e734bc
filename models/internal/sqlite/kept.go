package sqlite

import (
	"context"
	"os"
	"sync"
)

// kept is what this process has of each database, by its real path. Connections lock a database, as does a File
// that has made one, and the locks of a process end when it closes the file anywhere (fcntl(2)). So nobody may
// open and close it besides SQLite.
var kept = struct {
	sync.Mutex
	databases map[string]keptDatabase
}{databases: make(map[string]keptDatabase)}

type keptDatabase struct {
	users int
	file  *os.File // nil until something is to be synced
}

// keep is called before SQLite opens the database at a path, and what it returns once SQLite has closed it.
func keep(path string) (letGo func()) {
	kept.Lock()
	defer kept.Unlock()
	real := RealFile(path)
	k := kept.databases[real]
	k.users++
	kept.databases[real] = k
	return sync.OnceFunc(func() {
		kept.Lock()
		defer kept.Unlock()
		k := kept.databases[real]
		if k.users--; k.users > 0 {
			kept.databases[real] = k
			return
		}
		delete(kept.databases, real)
		if k.file != nil {
			k.file.Close()
		}
	})
}

// syncKept has the disk take what was written to a database that is kept, while others read and write it. It
// tells no errors: SQLite syncs what it relies on itself, and then finds less to do.
func syncKept(ctx context.Context, path string) {
	if file := openKept(path); file != nil {
		syncFile(ctx, file)
	}
}

func openKept(path string) *os.File {
	kept.Lock()
	defer kept.Unlock()
	real := RealFile(path)
	k := kept.databases[real]
	if k.file == nil && k.users > 0 {
		if file, err := os.OpenFile(real, os.O_RDWR, 0); err == nil {
			k.file = file
			kept.databases[real] = k
		}
	}
	return k.file
}
