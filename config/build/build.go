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
	Version string // the constant of that name
	// Commit is the full hash, with "-dirty" behind it when the files differed from it; "unknown" without version control.
	Commit string
	// Time is when the commit was made, in UTC as in RFC 3339; "" when the commit is unknown.
	Time string
	Go   string // its version, without "go" before it
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
