// Package dberr classifies errors of a database by what the caller can do: try again, give up, or call the operator.
//
// It knows the codes of both databases (PostgreSQL appendix A; sqlite.org/rescode.html) and the errors of their drivers, and nothing of
// statements or tables. It makes no decision: callers compare with errors.Is.
//
// Classify puts a class in front of a driver's error that has one. Here A ◀─ B means that B is a kind of A:
//
//	ErrBusy ◀─ ErrFull, ErrLocked         nothing has happened, another try may succeed
//	ErrTimeout                            nobody knows whether it happened
//	ErrUnavailable                        nobody knows whether it happened
//	    ◀─ ErrUnreachable                 no connection, so nothing has happened
//	    ◀─ ErrUnwritable (SQLite's file), ErrCannotWrite (PostgreSQL)
//
// The other classes stay inside models and the packages below it, which expect them or repeat the transaction.
package dberr
