//go:build !unix

package sqlite

// WhoHasOpen cannot know here.
func WhoHasOpen(string) string { return "" }
