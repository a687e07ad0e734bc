package build

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// Version is the version of the contract, the program and the client: info.version of openapi.yaml.
const Version = "1.1.0"

// Info is what `worldevents version`, the log and the metrics say of the build.
type Info struct {
	// Version is the constant of that name.
	Version string
	// Commit is the full hash of the commit, with "-dirty" behind it when the files differed from it; "unknown" when the
	// program was built without version control.
	Commit string
	// Time is when the commit was made, in UTC as in RFC 3339; "" when the commit is unknown. The time of the build itself
	// is nowhere, so that two builds of a commit are equal.
	Time string
	// Go is the version of Go, without "go" before it.
	Go string
}

// Read returns the Info of the running program.
func Read() Info {
	info := Info{Version: Version, Commit: "unknown", Go: strings.TrimPrefix(runtime.Version(), "go")}
	settings := make(map[string]string)
	if all, ok := debug.ReadBuildInfo(); ok {
		for _, s := range all.Settings {
			settings[s.Key] = s.Value
		}
	}
	if commit := settings["vcs.revision"]; commit != "" {
		info.Commit, info.Time = commit, settings["vcs.time"]
		if settings["vcs.modified"] == "true" {
			info.Commit += "-dirty"
		}
	}
	return info
}
