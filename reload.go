package main

import (
	"log/slog"
	"os"
	"strings"

	"worldevents/config"
)

// reloadable is a part of the configuration that SIGHUP has read again while the process serves.
type reloadable struct {
	// about names the setting in log lines.
	about string
	// reload puts in force what is there now. It returns attributes for the log line that say what that is and hold no secret.
	// After an error the whole part is as it was.
	reload func() (attributes []any, err error)
}

// reloadOnHangup reloads all parts with each signal, and leaves one line for each of them. A part that cannot be read keeps
// nothing from the others. Signals that come meanwhile count as one.
func reloadOnHangup(hangups <-chan os.Signal, log *slog.Logger, parts ...reloadable) {
	for range hangups {
		for _, part := range parts {
			if attributes, err := part.reload(); err != nil {
				log.Error("SIGHUP: "+part.about+" stays as it is", "error", oneLine(err))
			} else {
				log.Info("SIGHUP: "+part.about+" was read again", attributes...)
			}
		}
	}
}

// reloadLogLevel is the part of LOG_LEVEL.
func reloadLogLevel(c *config.Config) reloadable {
	return reloadable{"LOG_LEVEL", func() ([]any, error) {
		level, err := c.RereadLogLevel()
		if err != nil {
			return nil, err
		}
		logLevel.Set(level)
		return []any{"level", strings.ToLower(level.String())}, nil
	}}
}
