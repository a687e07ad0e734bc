package main

import (
	"log/slog"
	"os"
	"os/user"
	"strconv"

	"worldevents/config"
)

// audit writes what a command has changed, one line on stderr, and by which user of the operating system. It is written
// whatever LOG_LEVEL is.
func audit(c *config.Config, command string, changed ...any) {
	always := *c
	always.LogLevel = slog.LevelInfo
	log, _ := newLogs(&always)
	log.Info("audit", append([]any{"command", command, "by", systemUser()}, changed...)...)
}

// systemUser is the name of who runs the program, or the number where it has no name.
func systemUser() string {
	if who, err := user.Current(); err == nil {
		return who.Username
	}
	return strconv.Itoa(os.Getuid())
}
