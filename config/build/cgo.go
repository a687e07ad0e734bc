//go:build cgo && !race

package build

/*
#error worldevents is built without cgo, which would link a second SQLite, in C: set CGO_ENABLED=0. The race detector alone needs it.
*/
import "C"
