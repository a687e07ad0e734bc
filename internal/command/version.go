package command

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"worldevents/config/build"
)

// VersionFlag is --version, which says what the command version does.
type VersionFlag bool

// BeforeReset is called when the flag is there, before anything else of the command line counts.
func (VersionFlag) BeforeReset(app *kong.Kong) error {
	err := Version{}.Run()
	app.Exit(0)
	return err
}

// Version prints versions.
type Version struct{}

// Run prints versions.
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
