// Package build says which build of the program is running. It reads what the Go toolchain has put into the program, and nothing else.
//
// Version is written by hand and must be that of openapi.yaml. All the rest comes from the commit, so that two builds of it are equal.
package build
