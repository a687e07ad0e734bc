// Package sqlite keeps the file of a database: how it is opened, written to, and known to be still the right one.
//
// It knows no table. It guards against what SQLite itself does not notice: a file that was removed or replaced while it was open,
// damage, a full disk, a log that only grows.
//
// A File hands out connections, which all come to the same file, and says whether it takes writes:
//
//	       a write fails, or the path leads elsewhere
//	takes writes ──────────────────────────────▶ not ready ──(damage is met)──▶ refused until the process ends
//	             ◀──────────────────────────────
//	       Ready is asked, and writes
//
// Writing is the only writing connection; writes share its transactions (package batch). The WAL copies the log into the file and
// empties it once it is larger than 16 MB. Readers have a pool of their own.
package sqlite
