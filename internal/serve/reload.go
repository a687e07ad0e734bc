package serve

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"

	"worldevents/internal/logs"
	"worldevents/server"
	"worldevents/server/certificate"
)

// reloadable is a part of the configuration that SIGHUP reads again while the process serves.
type reloadable struct {
	// present means that this configuration has the part.
	present bool
	// about names the setting in log lines.
	about string
	// reload puts the present values in force. It returns attributes for the log line, which say what these
	// values are and contain no secret, and what is to be warned of. After an error the whole part is as it was before.
	reload func() (attributes []any, warnings []string, err error)
}

// reloadOnHangup reloads all parts with each signal, and logs one line for each part. Each part has a goroutine
// of its own, so that a part that waits for a database delays no other. Signals that come during a reload count
// as one more.
func (i *instance) reloadOnHangup(hangups <-chan os.Signal) {
	log := logs.At(i.config, slog.LevelInfo)
	var asked []chan bool
	for _, part := range i.reloadables() {
		if !part.present {
			continue
		}
		again := make(chan bool, 1)
		asked = append(asked, again)
		go func() {
			for range again {
				attributes, warnings, err := part.reload()
				if err != nil {
					log.Error("SIGHUP: "+part.about+" stays as it is", "error", logs.OneLine(err))
					continue
				}
				i.logWarnings("", warnings)
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

// reloadables are all parts. A secret in the environment is none: no signal can change that.
func (i *instance) reloadables() []reloadable {
	files, hasFiles := i.certificate.(*certificate.Files)
	return []reloadable{
		{hasFiles, "the certificate", func() ([]any, []string, error) { return i.reloadCertificate(files) }},
		{true, "LOG_LEVEL", i.reloadLogLevel},
		{i.config.JWTSecretFile != "", "JWT_SECRET_FILE", i.reloadKeys},
		{i.config.JWTPrivateKeyFile != "", "JWT_PRIVATE_KEY_FILE", i.reloadPrivateKeys},
		{i.config.OIDCClientSecretFile != "", "OIDC_CLIENT_SECRET_FILE", i.reloadClientSecret},
		{i.config.DatabaseURLFile != "", "DATABASE_URL_FILE", i.reloadDatabaseURL},
	}
}

// reloadCertificate reloads the certificate's files.
func (i *instance) reloadCertificate(files *certificate.Files) ([]any, []string, error) {
	err := files.Reload()
	if err == nil {
		i.logWarnings("TLS: ", files.Warnings())
	}
	return []any{"expires", files.Expiry()}, nil, err
}

// reloadLogLevel reloads LOG_LEVEL.
func (i *instance) reloadLogLevel() ([]any, []string, error) {
	level, err := i.config.RereadLogLevel()
	if err == nil {
		logs.Level.Set(level)
	}
	return []any{"level", strings.ToLower(level.String())}, nil, err
}

// reloadKeys reloads JWT_SECRET_FILE.
func (i *instance) reloadKeys() ([]any, []string, error) {
	keys, warnings, err := i.config.RereadKeys()
	changed := err == nil && i.compareKeys("JWT_SECRET_FILE", i.config.Keys, keys)
	if changed {
		i.server.SetKeys(keys)
		i.config.Keys = keys // what the next reload compares with
	}
	return i.keysInForce(changed, keys), warnings, err
}

// reloadPrivateKeys reloads JWT_PRIVATE_KEY_FILE.
func (i *instance) reloadPrivateKeys() ([]any, []string, error) {
	keys, warnings, err := i.config.RereadPrivateKeys()
	old := i.config.Ed25519Keys
	changed := err == nil && (i.compareKeys("JWT_PRIVATE_KEY_FILE", old.All(), keys.All()) || len(old.Private) != len(keys.Private))
	if changed {
		i.server.SetEd25519Keys(keys.Private, keys.Public)
		i.config.Ed25519Keys = keys // what the next reload compares with
	}
	return i.keysInForce(changed, keys.All()), warnings, err
}

// compareKeys reports whether keys have changed. It warns if no former key is left, because then every JWT of before is invalid
// at once.
func (i *instance) compareKeys(setting string, old, now [][]byte) (changed bool) {
	changed = !slices.EqualFunc(now, old, bytes.Equal)
	if changed && !slices.ContainsFunc(old, func(key []byte) bool {
		return slices.ContainsFunc(now, func(other []byte) bool { return bytes.Equal(key, other) })
	}) {
		i.log.Warn(setting + ": all former keys are gone, and with them every JWT that they have signed")
	}
	return changed
}

// keysInForce returns attributes for the log after keys of a file were read. They name keys by their kid, since every JWT shows
// that anyway. The key that signs may be of another file.
func (i *instance) keysInForce(changed bool, verify [][]byte) (attributes []any) {
	var ids []string
	for _, key := range verify {
		ids = append(ids, server.KeyID(key))
	}
	return []any{"changed", changed, "signs", i.server.Signs(), "verify", ids}
}

// reloadClientSecret reloads OIDC_CLIENT_SECRET_FILE.
func (i *instance) reloadClientSecret() ([]any, []string, error) {
	secret, warnings, err := i.config.Reread("OIDC_CLIENT_SECRET")
	changed := err == nil && secret != i.config.OIDCClientSecret
	if changed {
		i.server.SetClientSecret(secret)
		i.config.OIDCClientSecret = secret // what the next reload compares with
	}
	return []any{"changed", changed}, warnings, err
}

// reloadDatabaseURL reloads DATABASE_URL_FILE. Only user and password may change.
func (i *instance) reloadDatabaseURL() ([]any, []string, error) {
	text, warnings, err := i.config.Reread("DATABASE_URL")
	if err != nil {
		return nil, nil, err
	}
	used, err := i.store.UseCredentials(context.Background(), text)
	if used.Untried != nil {
		i.log.Warn("DATABASE_URL_FILE: the new user and password could not be tried", "error", logs.OneLine(used.Untried))
	}
	return []any{"changed", used.Changed}, warnings, err
}
