// Package build says which build of the program is running: its version, and the commit that it was made of.
//
// It reads what the Go toolchain has put into the program, and nothing else: no file, no setting.
//
// Version is written by hand and must be that of openapi.yaml. All the rest comes from the commit, so that two builds of it are equal.
package build
