// Package sqlite opens the file of a database, writes to it, and checks that it is still the right one. It guards against what SQLite
// itself does not notice: a file that was removed or replaced while it was open, damage, a full disk, a log that only grows.
//
// A File makes connections, which all have the same file, and knows whether it takes writes:
//
//	       a write fails, or the path leads elsewhere
//	takes writes ──────────────────────────────▶ not ready ──(damage is met)──▶ refused until the process ends
//	             ◀──────────────────────────────
//	       Ready is asked, and writes
//
// Writing is the only writing connection; writes share its transactions (package batch). The WAL copies the log into the file and empties
// it beyond 16 MB. Readers have a pool of their own.
package sqlite
