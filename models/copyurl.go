package models

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// copyURL is one side of a copy.
type copyURL struct {
	url string
	// name is the URL without secrets.
	name string
	// file is that of SQLite, else "".
	file string
}

// parseCopyURL also refuses what pgx would read as settings of a database that nobody has named.
func parseCopyURL(text string) (copyURL, error) {
	if path, ok := strings.CutPrefix(text, "sqlite:"); ok {
		file := sqliteFile(path)
		if file == "" || strings.HasSuffix(file, "/") || strings.IndexByte(file, 0) >= 0 {
			return copyURL{}, errors.New("sqlite: needs the name of a file of this machine")
		}
		return copyURL{text, text, file}, nil
	}
	if !isPostgresURL(text) {
		return copyURL{}, errors.New("must be sqlite:FILE or postgres://…")
	}
	config, err := parsePostgres(text, 0)
	if err != nil {
		return copyURL{}, err
	}
	return copyURL{text, postgresName(config), ""}, nil
}

// isPostgresURL reports whether pgx reads a text as a URL, and not as keywords and values.
func isPostgresURL(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// errStrayAt is returned for a URL of which pgx would take a part of the password for the name of a host, and show it.
var errStrayAt = errors.New("has more than one @: one that belongs to a user name or a password is written as %40")

// hasStrayAt reports whether a URL has another @ than the one before its hosts. In values of parameters it may stand.
func hasStrayAt(text string) bool {
	credentials, rest, found := strings.Cut(text, "@")
	if _, authority, _ := strings.Cut(credentials, "://"); !found || strings.Contains(authority, "/") {
		return false
	}
	hosts, query, _ := strings.Cut(rest, "?")
	return strings.Contains(hosts, "@") || slices.ContainsFunc(strings.Split(query, "&"), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return strings.Contains(name, "@")
	})
}

// postgresName says which database it is, and nothing of how to get in.
func postgresName(config *pgx.ConnConfig) string {
	var hosts []string
	add := func(host string, port uint16) {
		if address := net.JoinHostPort(host, strconv.Itoa(int(port))); !slices.Contains(hosts, address) {
			hosts = append(hosts, address)
		}
	}
	add(config.Host, config.Port)
	for _, other := range config.Fallbacks {
		add(other.Host, other.Port)
	}
	return "postgres://" + url.PathEscape(config.User) + "@" + strings.Join(hosts, ",") + "/" + url.PathEscape(config.Database)
}

func (u copyURL) openSource(ctx context.Context, timeout time.Duration) (copySource, error) {
	if u.file != "" {
		return openSQLiteSource(ctx, u.file)
	}
	return openPostgresSource(ctx, u.url, timeout)
}

func (u copyURL) openTarget(ctx context.Context, source copySource, timeout time.Duration) (copyTarget, error) {
	if u.file != "" {
		file, _ := source.(*sqliteSource)
		return openSQLiteTarget(ctx, u.file, file)
	}
	postgres, _ := source.(*postgresSource)
	return openPostgresTarget(ctx, u.url, timeout, postgres)
}

// checkSourceSchema refuses a database whose rows this program cannot copy. version is 0 without a schema.
func checkSourceSchema(version int64) error {
	switch newest := newestSchema(); {
	case version == 0:
		return errors.New("has no schema of this program: there is nothing to copy")
	case version < newest:
		return fmt.Errorf("has the schema %d, and this program is for %d: run worldevents migrate with this DATABASE_URL first", version, newest)
	case version > newest:
		return errNewerSchema(version)
	}
	return nil
}

func errNewerSchema(version int64) error {
	return fmt.Errorf("has the schema %d, and this program knows only those up to %d: use a newer version of it", version, newestSchema())
}
