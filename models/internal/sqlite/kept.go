package sqlite

import "sync"

// kept counts what this process has of each database, by its real path: connections, or a File that has made one.
// They lock the database, and nobody may open and close it besides SQLite.
var kept = struct {
	sync.Mutex
	databases map[string]int
}{databases: make(map[string]int)}

// keep is called before SQLite opens the database at a path, and letGo once it has closed it.
func keep(path string) {
	kept.Lock()
	defer kept.Unlock()
	kept.databases[RealFile(path)]++
}

func letGo(path string) {
	kept.Lock()
	defer kept.Unlock()
	if real := RealFile(path); kept.databases[real] > 1 {
		kept.databases[real]--
	} else {
		delete(kept.databases, real)
	}
}
