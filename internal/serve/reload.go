package serve

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"

	"worldevents/config"
	"worldevents/internal/logs"
	"worldevents/models"
	"worldevents/server"
)

// reloadable is a part of the configuration that SIGHUP reads again while the process serves.
type reloadable struct {
	// about names the setting in log lines.
	about string
	// reload puts the present values in force. It returns attributes for the log line, which say what these
	// values are and contain no secret. After an error the whole part is as it was before.
	reload func() (attributes []any, err error)
}

// reloadOnHangup reloads all parts with each signal, and logs one line for each part. Each part has a goroutine
// of its own, so that a part that waits for a database delays no other. Signals that come during a reload count
// as one more.
func reloadOnHangup(hangups <-chan os.Signal, log *slog.Logger, parts ...reloadable) {
	var asked []chan bool
	for _, part := range parts {
		again := make(chan bool, 1)
		asked = append(asked, again)
		go func() {
			for range again {
				attributes, err := part.reload()
				if err != nil {
					log.Error("SIGHUP: "+part.about+" stays as it is", "error", logs.OneLine(err))
					continue
				}
				level := slog.LevelInfo
				if unchanged(attributes) {
					level = slog.LevelWarn
					attributes = append(attributes, "note", "the file is as it was. If it should be another: systemd gives a service the copy of a credential that it made at the start")
				}
				log.Log(context.Background(), level, "SIGHUP: "+part.about+" was read again", attributes...)
			}
		}()
	}
	for range hangups {
		for _, again := range asked {
			select {
			case again <- true:
			default: // a reload is queued already, and will read what is there then
			}
		}
	}
}

// unchanged reports whether the attributes of a reload say that a file has not changed.
func unchanged(attributes []any) bool {
	i := slices.Index(attributes, any("changed"))
	return i >= 0 && attributes[i+1] == false
}

// reloadables are the parts that this configuration has. A secret in the environment is none: no signal can
// change that.
func reloadables(c *config.Config, srv *server.Server, store *models.Store, log *slog.Logger) []reloadable {
	parts := []reloadable{reloadLogLevel(c)}
	if c.JWTSecretFile != "" {
		parts = append(parts, reloadKeys(c, srv, log))
	}
	if c.OIDCClientSecretFile != "" {
		parts = append(parts, reloadClientSecret(c, srv, log))
	}
	if c.DatabaseURLFile != "" {
		parts = append(parts, reloadDatabaseURL(c, store, log))
	}
	return parts
}

// reloadLogLevel reloads LOG_LEVEL.
func reloadLogLevel(c *config.Config) reloadable {
	return reloadable{"LOG_LEVEL", func() ([]any, error) {
		level, err := c.RereadLogLevel()
		if err != nil {
			return nil, err
		}
		logs.Level.Set(level)
		return []any{"level", strings.ToLower(level.String())}, nil
	}}
}

// reloadKeys reloads JWT_SECRET_FILE. The log line names keys by their kid, which every JWT shows anyway. It
// warns if no former key is left, because then every JWT of before is invalid at once.
func reloadKeys(c *config.Config, srv *server.Server, log *slog.Logger) reloadable {
	// current is what the server has now. A reload compares with it, to say whether the file has changed.
	current := c.Keys
	return reloadable{"JWT_SECRET_FILE", func() ([]any, error) {
		keys, warnings, err := c.RereadKeys()
		if err != nil {
			return nil, err
		}
		warnAll(log, warnings)
		changed := !slices.EqualFunc(keys, current, bytes.Equal)
		if changed {
			if !slices.ContainsFunc(current, func(old []byte) bool {
				return slices.ContainsFunc(keys, func(key []byte) bool { return bytes.Equal(old, key) })
			}) {
				log.Warn("JWT_SECRET_FILE: all former keys are gone, and with them every JWT that they have signed")
			}
			srv.SetKeys(keys)
			current = keys
		}
		var ids []string
		for _, key := range keys {
			ids = append(ids, server.KeyID(key))
		}
		return []any{"changed", changed, "signs", ids[0], "verify", ids}, nil
	}}
}

// reloadDatabaseURL reloads DATABASE_URL_FILE. Only user and password may change.
func reloadDatabaseURL(c *config.Config, store *models.Store, log *slog.Logger) reloadable {
	return reloadable{"DATABASE_URL_FILE", func() ([]any, error) {
		text, warnings, err := c.Reread("DATABASE_URL")
		if err != nil {
			return nil, err
		}
		warnAll(log, warnings)
		used, err := store.UseCredentials(context.Background(), text)
		if err != nil {
			return nil, err
		}
		if used.Untried != nil {
			log.Warn("DATABASE_URL_FILE: the new user and password could not be tried", "error", logs.OneLine(used.Untried))
		}
		return []any{"changed", used.Changed}, nil
	}}
}

// reloadClientSecret reloads OIDC_CLIENT_SECRET_FILE.
func reloadClientSecret(c *config.Config, srv *server.Server, log *slog.Logger) reloadable {
	current := c.OIDCClientSecret
	return reloadable{"OIDC_CLIENT_SECRET_FILE", func() ([]any, error) {
		secret, warnings, err := c.Reread("OIDC_CLIENT_SECRET")
		if err != nil {
			return nil, err
		}
		warnAll(log, warnings)
		changed := secret != current
		if changed {
			srv.SetClientSecret(secret)
			current = secret
		}
		return []any{"changed", changed}, nil
	}}
}

func warnAll(log *slog.Logger, warnings []string) {
	for _, warning := range warnings {
		log.Warn(warning)
	}
}
