// Package dberr says what an error of a database means to whoever called it: try again, give up, or tell the operator.
//
// It knows the codes of both databases (PostgreSQL appendix A; sqlite.org/rescode.html) and the errors of their drivers, and nothing of
// statements or tables. It makes no decision: callers compare with errors.Is.
//
// Classify puts a class in front of an error of a driver, where the error has one:
//
//	ErrBusy ◀─ ErrFull                                     nothing has happened, another try may succeed
//	ErrTimeout                                             nobody knows whether it happened
//	ErrUnavailable ◀─ ErrUnreachable (nothing has happened)
//	               ◀─ ErrUnwritable (a SQLite file), ErrCannotWrite (PostgreSQL)
//
// The other classes are for the package models alone, which provokes them on purpose or repeats a transaction because of them.
package dberr
