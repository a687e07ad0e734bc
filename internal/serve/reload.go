package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"worldevents/config/regularfile"
	"worldevents/internal/logs"
	"worldevents/server"
	"worldevents/server/certificate"
)

const (
	lookInterval = 10 * time.Second
	// secondLook is the time from a look that has found something new to the next: a file may be half written.
	secondLook = time.Second
)

// reloadable is a part of the configuration that can be reloaded.
type reloadable struct {
	// present means that this configuration has the part.
	present bool
	// about names the setting in log lines.
	about string
	// read reads the files of the part; nil if it has none, and SIGHUP alone reloads it.
	read func() ([]regularfile.File, error)
	// reload puts files in force. It returns attributes for the log line, without secrets, and warnings. After an error the whole part is
	// as before.
	reload func(files []regularfile.File) (attributes []any, warnings []string, err error)
}

// reloadOnHangup reloads every part with each signal, and when its files change. Each part has a goroutine of its own: one that waits for
// a database delays no other. Signals that come during a reload count as one more.
func (i *instance) reloadOnHangup(hangups <-chan os.Signal) {
	log := logs.At(i.config, slog.LevelInfo)
	var asked []chan bool
	for _, part := range i.reloadables() {
		if !part.present {
			continue
		}
		again := make(chan bool, 1)
		asked = append(asked, again)
		go part.watch(again, log)
	}
	for range hangups {
		for _, again := range asked {
			select {
			case again <- true:
			default: // a reload is queued already
			}
		}
	}
}

// watch reloads the part on again, until that closes, and when its files have changed.
func (part reloadable) watch(again <-chan bool, log *slog.Logger) {
	w := watcher{reloadable: part, log: log}
	for wait := lookInterval; ; {
		select {
		case _, ok := <-again:
			if !ok {
				return
			}
			w.take("SIGHUP: ", w.find())
			wait = lookInterval
		case <-time.After(wait):
			wait = w.look()
		}
	}
}

type watcher struct {
	reloadable
	log                    *slog.Logger
	inForce, refused, seen string // found.all
}

// found is what a look finds.
type found struct {
	files []regularfile.File
	err   error
	all   string // both, for comparison
}

func (w *watcher) find() (now found) {
	if w.read != nil {
		now.files, now.err = w.read()
	}
	now.all = fmt.Sprintf("%q %v", now.files, now.err)
	return now
}

// look takes what two looks in a row have found, unless it is in force. It returns when to look again.
func (w *watcher) look() time.Duration {
	if w.read == nil {
		return lookInterval
	}
	switch now := w.find(); {
	case errors.Is(now.err, fs.ErrNotExist): // it may be about to be replaced
		w.seen = ""
	case now.all == w.inForce:
		w.seen, w.refused = now.all, ""
	case now.all != w.seen:
		w.seen = now.all
		return secondLook
	default:
		w.take("", now)
	}
	return lookInterval
}

// take reloads the part. Without a prefix it logs only changes, and an unusable file once. It tries that again at every look: a database
// may accept a password later than the file has it.
func (w *watcher) take(prefix string, now found) {
	attributes, warnings, err := []any(nil), []string(nil), now.err
	if err == nil {
		attributes, warnings, err = w.reload(now.files)
	}
	if err != nil {
		if prefix != "" || now.all != w.refused {
			w.log.Error(prefix+w.about+" stays as it is", "error", logs.OneLine(err))
		}
		w.refused = now.all
		return
	}
	w.inForce = now.all
	level := slog.LevelInfo
	if isUnchanged(attributes) {
		if prefix == "" {
			return
		}
		level = slog.LevelWarn
		attributes = append(attributes, "note", "the file is as it was. If it should be another: systemd gives a service the copy of a credential that it made at the start")
	}
	for _, warning := range warnings {
		w.log.Warn(warning)
	}
	w.log.Log(context.Background(), level, prefix+w.about+" was read again", attributes...)
}

func isUnchanged(attributes []any) bool {
	i := slices.Index(attributes, any("changed"))
	return i >= 0 && attributes[i+1] == false
}

// reloadables are all parts. Nothing can change a secret in the environment.
func (i *instance) reloadables() []reloadable {
	of := func(setting string) func() ([]regularfile.File, error) {
		return func() ([]regularfile.File, error) {
			file, err := i.config.ReadFile(setting)
			return []regularfile.File{file}, err
		}
	}
	files, hasFiles := i.certificate.(*certificate.Files)
	return []reloadable{
		{hasFiles, "the certificate", files.Read, func(read []regularfile.File) ([]any, []string, error) { return i.reloadCertificate(files, read) }},
		{true, "LOG_LEVEL", nil, i.reloadLogLevel},
		{i.config.JWTSecretFile != "", "JWT_SECRET_FILE", of("JWT_SECRET_FILE"), i.reloadKeys},
		{i.config.JWTPrivateKeyFile != "", "JWT_PRIVATE_KEY_FILE", of("JWT_PRIVATE_KEY_FILE"), i.reloadPrivateKeys},
		{i.config.OIDCClientSecretFile != "", "OIDC_CLIENT_SECRET_FILE", of("OIDC_CLIENT_SECRET_FILE"), i.reloadText("OIDC_CLIENT_SECRET", &i.config.OIDCClientSecret, i.server.SetClientSecret)},
		{i.config.WorldAccessTokenFile != "", "WORLD_ACCESS_TOKEN_FILE", of("WORLD_ACCESS_TOKEN_FILE"), i.reloadText("WORLD_ACCESS_TOKEN", &i.config.WorldAccessToken, i.server.SetWorldToken)},
		{i.config.DatabaseURLFile != "", "DATABASE_URL_FILE", of("DATABASE_URL_FILE"), i.reloadDatabaseURL},
	}
}

func (i *instance) reloadCertificate(files *certificate.Files, read []regularfile.File) (attributes []any, warnings []string, err error) {
	changed, err := files.Use(read)
	if err == nil {
		for _, warning := range files.Warnings() {
			warnings = append(warnings, "TLS: "+warning)
		}
	}
	return []any{"changed", changed, "expires", files.Expiry()}, warnings, err
}

func (i *instance) reloadLogLevel([]regularfile.File) ([]any, []string, error) {
	level, err := i.config.RereadLogLevel()
	if err == nil {
		logs.Level.Set(level)
	}
	return []any{"level", strings.ToLower(level.String())}, nil, err
}

func (i *instance) reloadKeys(files []regularfile.File) ([]any, []string, error) {
	keys, warnings, err := i.config.RereadKeys(files[0])
	changed := err == nil && i.compareKeys("JWT_SECRET_FILE", i.config.Keys, keys)
	if changed {
		i.server.SetKeys(keys)
		i.config.Keys = keys // what the next reload compares with
	}
	return i.keysInForce(changed, keys), warnings, err
}

func (i *instance) reloadPrivateKeys(files []regularfile.File) ([]any, []string, error) {
	keys, warnings, err := i.config.RereadPrivateKeys(files[0])
	old := i.config.Ed25519Keys
	changed := err == nil && (i.compareKeys("JWT_PRIVATE_KEY_FILE", old.All(), keys.All()) || len(old.Private) != len(keys.Private))
	if changed {
		i.server.SetEd25519Keys(keys.Private, keys.Public)
		i.config.Ed25519Keys = keys // what the next reload compares with
	}
	return i.keysInForce(changed, keys.All()), warnings, err
}

// compareKeys reports whether keys have changed. It warns if no former key is left, which makes every earlier JWT invalid.
func (i *instance) compareKeys(setting string, old, now [][]byte) (changed bool) {
	changed = !slices.EqualFunc(now, old, bytes.Equal)
	if changed && !slices.ContainsFunc(old, func(key []byte) bool {
		return slices.ContainsFunc(now, func(other []byte) bool { return bytes.Equal(key, other) })
	}) {
		i.log.Warn(setting + ": all former keys are gone, and with them every JWT that they have signed")
	}
	return changed
}

// keysInForce returns attributes for the log. They have the kid of each key, which every JWT shows. The key that signs may be of another
// file.
func (i *instance) keysInForce(changed bool, verify [][]byte) (attributes []any) {
	var ids []string
	for _, key := range verify {
		ids = append(ids, server.KeyID(key))
	}
	return []any{"changed", changed, "signs", i.server.Signs(), "verify", ids}
}

// reloadText replaces a secret that others are sent.
func (i *instance) reloadText(setting string, last *string, set func(string)) func([]regularfile.File) ([]any, []string, error) {
	return func(files []regularfile.File) ([]any, []string, error) {
		text, warnings, err := i.config.Reread(setting, files[0])
		changed := err == nil && text != *last
		if changed {
			set(text)
			*last = text // what the next reload compares with
		}
		return []any{"changed", changed}, warnings, err
	}
}

func (i *instance) reloadDatabaseURL(files []regularfile.File) ([]any, []string, error) {
	text, warnings, err := i.config.Reread("DATABASE_URL", files[0])
	if err != nil {
		return nil, nil, err
	}
	used, err := i.store.UseCredentials(context.Background(), text)
	if used.Untried != nil {
		i.log.Warn("DATABASE_URL_FILE: the new user and password could not be tried", "error", logs.OneLine(used.Untried))
	}
	return []any{"changed", used.Changed}, warnings, err
}
