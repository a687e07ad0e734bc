// Package schema has the tables of both databases: migrations, triggers, versions, and the advisory locks for changing them.
//
// Judge returns what is wrong with a database, and the statements that fix it; the caller runs them. Package models migrates, copydb copies
// the tables, and inspect reports to the operator.
//
// Both databases count versions alike, up to Newest. An older program works with a newer schema while the table compatibility allows it:
//
//	version < Newest     migrate first
//	version = Newest     fine
//	version > Newest     fine while compatibility.oldest <= Newest, else refused
package schema
