// Package sqlite keeps the file of a database: how it is opened, written to, and known to be still the right one.
//
// It knows no table. It guards against what SQLite itself does not notice: a file that was removed or replaced while it was open, a
// write-ahead log of another file beside it, damage, a full disk, a log that only grows.
//
// A File hands out connections, which all come to the same file, and says whether it takes writes:
//
//	         a write fails, or the path leads elsewhere
//	writable ──────────────────────────────────────────▶ not ready: probed until one write succeeds
//	         ◀──────────────────────────────────────────
//
// Writing is the only writing connection; writes share its transactions (package batch). The WAL empties the log between two commits once
// it is larger than 16 MB. Readers have a pool of their own.
package sqlite
