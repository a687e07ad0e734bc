package command

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"worldevents/config/build"
)

// VersionFlag is --version, which does what the command version does.
type VersionFlag bool

// BeforeReset implements kong's hook. kong calls it for the flag before it looks at the rest of the command
// line, so --version needs no command.
func (VersionFlag) BeforeReset(app *kong.Kong) error {
	err := Version{}.Run()
	app.Exit(0)
	return err
}

// Version prints versions.
type Version struct{}

// Run prints the versions of the program, of Go, and of the modules that talk to the databases.
func (Version) Run() error {
	this := build.Read()
	fmt.Println("worldevents", this.Version)
	fmt.Println(strings.TrimSpace("commit " + this.Commit + " " + this.Time))
	fmt.Println("go", this.Go)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			switch dep.Path {
			case "github.com/jackc/pgx/v5", "modernc.org/sqlite", "gorm.io/gorm":
				fmt.Println(dep.Path, dep.Version)
			}
		}
	}
	return nil
}
