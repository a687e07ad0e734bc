// Package schema has the tables of both databases: their migrations, their versions, and the advisory locks that those who change them
// take.
//
// It runs no statement itself. Package models migrates and checks with what stands here, copydb copies the tables, and inspect looks at them.
//
// Both databases count their versions alike, and Newest is the last one of this program. An older program works with a newer schema as
// long as the table compatibility says so:
//
//	version < Newest     migrate first
//	version = Newest     fine
//	version > Newest     fine while compatibility.oldest <= Newest, else refused
package schema
