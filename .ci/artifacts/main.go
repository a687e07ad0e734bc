// Command artifacts makes what a release has beside its programs, for .ci/release, in the folder of the source. Everything is
// made of the commit alone: no time of the build and no random number is in it.
//
//	artifacts sbom PROGRAM          prints the bill of materials of a program
//	artifacts sbom-client PACKAGE   prints that of the client, of its packed form
//	artifacts image PROGRAM…        prints an OCI image of programs for Linux, as an archive
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "artifacts:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("no file is named")
	}
	switch args[0] {
	case "sbom":
		return writeSBOM(out, programSBOM, args[1])
	case "sbom-client":
		return writeSBOM(out, clientSBOM, args[1])
	case "image":
		return writeImage(out, args[1:])
	}
	return fmt.Errorf("there is no command %q", args[0])
}
