//go:build !unix

package main

// keepFilesPrivate does nothing here: files have no mode.
func keepFilesPrivate() {}
