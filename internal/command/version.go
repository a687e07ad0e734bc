package command

import (
	"fmt"
	"runtime/debug"
	"strings"

	"worldevents/config/build"
)

// Version prints the versions of the program.
type Version struct{}

func (Version) Run() error {
	fmt.Println(Versions())
	return nil
}

// Versions are those of the program, of Go, and of the modules that talk to the databases, one to a line.
func Versions() string {
	this := build.Read()
	lines := []string{"worldevents " + this.Version, strings.TrimSpace("commit " + this.Commit + " " + this.Time), "go " + this.Go}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			switch dep.Path {
			case "github.com/jackc/pgx/v5", "modernc.org/sqlite", "gorm.io/gorm":
				lines = append(lines, dep.Path+" "+dep.Version)
			}
		}
	}
	return strings.Join(lines, "\n")
}
