package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Parse reads a URL, and the current files that it names, such as the one with passwords.
func Parse(url string, timeout time.Duration) (*pgx.ConnConfig, error) {
	if hasStrayAt(url) {
		return nil, errStrayAt
	}
	config, err := pgx.ParseConfig(url)
	var file *fs.PathError
	switch { // err itself may quote the password
	case errors.As(err, &file):
		return nil, fmt.Errorf("names a file that cannot be read: %w", file)
	case err != nil:
		return nil, errors.New("not a PostgreSQL URL that can be used, or a file that it names is none of the kind")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = timeout
	}
	// Package pgx reads times and texts in these forms, whatever the database or the role has as its default.
	config.RuntimeParams["datestyle"] = "ISO"
	config.RuntimeParams["client_encoding"] = "UTF8"
	return config, nil
}

// IsURL reports whether pgx reads a text as a URL, not as keywords and values.
func IsURL(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// errStrayAt is returned for a URL with a stray @. pgx would take a part of the password for a host, and errors would show it.
var errStrayAt = errors.New("has more than one @: one that belongs to a user name or a password is written as %40")

// hasStrayAt reports whether a URL has another @ than the one in front of its hosts, except in the value of a parameter.
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

// HostsOf returns the config of each host of a URL by itself. Its sslmode may allow several ways: with TLS and without.
func HostsOf(config *pgx.ConnConfig) (hosts []*pgx.ConnConfig) {
	all := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}}, config.Fallbacks...)
	for _, way := range all {
		i := slices.IndexFunc(hosts, func(h *pgx.ConnConfig) bool { return h.Host == way.Host && h.Port == way.Port })
		if i >= 0 {
			hosts[i].Fallbacks = append(hosts[i].Fallbacks, way)
			continue
		}
		host := config.Copy()
		host.Host, host.Port, host.TLSConfig, host.Fallbacks = way.Host, way.Port, way.TLSConfig, nil
		hosts = append(hosts, host)
	}
	return hosts
}

// AddressOf is the first host and port of a config.
func AddressOf(config *pgx.ConnConfig) string {
	return net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
}

// NameOf is the name of the database, without secrets.
func NameOf(config *pgx.ConnConfig) string {
	var hosts []string
	for _, host := range HostsOf(config) {
		hosts = append(hosts, AddressOf(host))
	}
	return "postgres://" + url.PathEscape(config.User) + "@" + strings.Join(hosts, ",") + "/" + url.PathEscape(config.Database)
}

// sameButCredentials reports whether two URLs differ only in user and password. The user is the default of the database's name.
func sameButCredentials(a, b string) bool {
	was, err := Parse(a, 0)
	if err != nil || !IsURL(b) {
		return false
	}
	is, err := Parse(b, 0)
	return err == nil && withoutCredentials(a) == withoutCredentials(b) && cmp.Or(was.Database, was.User) == cmp.Or(is.Database, is.User)
}

// withoutCredentials returns a URL without scheme, user and password. Like pgx and libpq it takes these from the front of the first @,
// unless a slash comes first, and from the parameters.
func withoutCredentials(text string) string {
	_, rest, _ := strings.Cut(text, "://")
	if i := strings.IndexAny(rest, "@/"); i >= 0 && rest[i] == '@' {
		rest = rest[i+1:]
	}
	rest, query, _ := strings.Cut(rest, "?")
	pairs := slices.DeleteFunc(strings.Split(query, "&"), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		name, _ = url.QueryUnescape(name)
		name = strings.TrimSpace(name)
		return name == "" || name == "user" || name == "password"
	})
	return rest + "?" + strings.Join(pairs, "&")
}

const minPostgres = 15 // the oldest version of the tests

// Supported returns an error, in words for the operator, for a server that is too old and for a database that cannot store every text.
// version is server_version_num, such as 150018 for 15.18.
func Supported(version int, encoding string) error {
	switch {
	case version < minPostgres*10000:
		return fmt.Errorf("PostgreSQL %d is too old: version %d or newer is needed", version/10000, minPostgres)
	case encoding != "UTF8":
		return fmt.Errorf("the encoding of the database is %s: UTF8 is needed, as in CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0", encoding)
	}
	return nil
}
