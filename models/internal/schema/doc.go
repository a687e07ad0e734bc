// Package schema has the tables of both databases: their migrations, triggers and versions, and the advisory locks that those who change them
// take.
//
// Judge says what is wrong with a database, and which statements put it right; whoever asks runs them. Package models migrates with what
// stands here, copydb copies the tables, and inspect tells the operator.
//
// Both databases count their versions alike, and Newest is the last one of this program. An older program works with a newer schema as
// long as the table compatibility says so:
//
//	version < Newest     migrate first
//	version = Newest     fine
//	version > Newest     fine while compatibility.oldest <= Newest, else refused
package schema
