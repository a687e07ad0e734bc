//go:build !unix

package sqlite

// WhoHasOpen cannot find out on this system.
func WhoHasOpen(string) string { return "" }
