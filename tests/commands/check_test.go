package commands

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

// What is as it should be is no fault, and nothing is made or changed.
func TestCheck(t *testing.T) {
	eachEmptyProgram(t, func(t *testing.T, p *servicetest.Program) {
		result, _ := servicetest.Check(t, p)
		result.Has(t, "warning", "no database: if there was one, put its files back|no tables yet")
		if !result.OK || result.Settings["DB_TIMEOUT"] != "20s" || result.Settings["JWT_SECRET"] != "xxxxx" || result.Settings["DOCS"] != "true" {
			t.Errorf("%+v", result)
		}
		servicetest.Is(t, folderNames(t, p.Dir), "", "files made")
		p.MustRun("demo")
		before := folder(t, p.Dir)
		result, stderr := servicetest.Check(t, p)
		result.Has(t, "ok", "foreign keys")
		result.Has(t, "ok", "version 1")
		servicetest.Is(t, stderr, "", "said")
		servicetest.Is(t, folder(t, p.Dir), before, "the folder")
		s := p.ServeReady() // beside which it sees the same
		names := folderNames(t, p.Dir)
		result, stderr = servicetest.Check(t, p)
		servicetest.Is(t, stderr, "", "said beside a service of %+v", result)
		servicetest.Is(t, folderNames(t, p.Dir), names, "the names in the folder")
		servicetest.Is(t, s.Admin("/readyz"), 200, "/readyz")
	})
}

// folder is all files with contents and times.
func folder(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	files, _ := os.ReadDir(dir)
	for _, file := range files {
		info := servicetest.Must(file.Info())(t)
		text, _ := os.ReadFile(filepath.Join(dir, file.Name()))
		b.WriteString(file.Name() + " " + info.ModTime().String() + " " + string(text) + "\n")
	}
	return b.String()
}

func folderNames(t *testing.T, dir string) (names string) {
	t.Helper()
	files, _ := os.ReadDir(dir)
	for _, file := range files {
		names += file.Name() + "\n"
	}
	return names
}

func TestCheckSettings(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t, "APP_ENV=production", "DB_TIMEOUT=soon", "JWT_SECRET=short", "JWT_SECRTE=s3cr3t", "BASE_URL=ftp://x", "LISTEN_ADDR=192.0.2.1:80")
	result, _ := servicetest.Check(t, p)
	for _, fault := range []string{"^DB_TIMEOUT: ", "^JWT_SECRET: ", "^BASE_URL: ", "^LISTEN_ADDR: .*cannot assign"} {
		result.Has(t, "fault", fault)
	}
	p = servicetest.NewProgram(t, "LISTEN_ADDR=0.0.0.0:80", "ADMIN_ADDR=192.0.2.1:80")
	result, _ = servicetest.Check(t, p)
	result.Has(t, "warning", "^LISTEN_ADDR: ")
	result.Has(t, "fault", "^ADMIN_ADDR: .*cannot assign")
	p = servicetest.NewProgram(t, "APP_ENV=production", "JWT_SECRTE=s3cr3t", "OIDC_CLIENT_SECRET=s3cr3t", "OIDC_ISSUER=http://localhost:1", "OIDC_CLIENT_ID=x")
	result, _ = servicetest.Check(t, p)
	result.Has(t, "warning", "JWT_SECRTE is no setting")
	result.Has(t, "warning", "BASE_URL is plain http")
	result.Has(t, "fault", "^OIDC_ISSUER: ")
}

// The identity provider must publish its endpoints, a key that can be used, and a way for clients to authenticate that this service knows.
func TestCheckProvider(t *testing.T) {
	t.Parallel()
	const (
		ed25519 = `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}` // RFC 8037 appendix A.2
		ed      = `{"id_token_signing_alg_values_supported":["HS256","EdDSA","Ed25519"]}`
	)
	for _, test := range []struct{ metadata, keys, secret, level, words string }{
		{ed, `{"keys":[{}, ` + ed25519 + `, {"kty":"oct","k":"AAAA"}]}`, "", "ok", "1 can be used"},
		{ed, `{"keys":[{}]}`, "", "fault", "no usable one is published"},
		{ed, `{"keys":5}`, "", "fault", "keys"},
		{`{}`, `{"keys":[` + ed25519 + `]}`, "", "fault", "no usable one is published"}, // what does not say is RS256
		{`{"id_token_signing_alg_values_supported":["HS256"]}`, "", "", "fault", "HS256"},
		{`{"issuer":"https://other.example"}`, "", "", "fault", "other.example"},
		{`{"token_endpoint":5}`, "", "", "fault", "endpoint is missing"},
		{`{"token_endpoint_auth_methods_supported":["private_key_jwt","none"]}`, "", "s", "fault", "private_key_jwt, none"},
		{`{"token_endpoint_auth_methods_supported":["private_key_jwt"]}`, "", "", "fault", "private_key_jwt"},
	} {
		t.Run(test.metadata+test.keys, func(t *testing.T) {
			var issuer string
			provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.URL.Path == "/keys" {
					w.Write([]byte(test.keys))
					return
				}
				metadata := map[string]any{"issuer": issuer, "authorization_endpoint": issuer + "/a", "token_endpoint": issuer + "/t", "jwks_uri": issuer + "/keys"}
				json.Unmarshal([]byte(test.metadata), &metadata)
				json.NewEncoder(w).Encode(metadata)
			}))
			defer provider.Close()
			issuer = provider.URL
			p := servicetest.NewProgram(t, "OIDC_ISSUER="+issuer, "OIDC_CLIENT_ID=x", "OIDC_CLIENT_SECRET="+test.secret)
			servicetest.Finds(t, p, test.level, "^OIDC_ISSUER: .*"+test.words)
		})
	}
}

// An owner of worlds must answer, and not let in whoever does not exist.
func TestCheckOwnerOfWorlds(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{204: "warning says yes to anybody", 403: "ok answers", 500: "fault HTTP status 500"} {
		owner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer t0ken" {
				status = http.StatusTeapot
			}
			w.WriteHeader(status)
		}))
		defer owner.Close()
		level, words, _ := strings.Cut(want, " ")
		servicetest.Finds(t, servicetest.NewProgram(t, "WORLD_ACCESS_URL="+owner.URL+"/may?x=y", "WORLD_ACCESS_TOKEN=t0ken"), level, "^WORLD_ACCESS_URL: .*"+words)
	}
}

// Damage that the service would not notice at once is a fault.
func TestCheckDamage(t *testing.T) {
	for words, damage := range map[string][]string{
		"table blocked_identities":    {"DROP TABLE blocked_identities"},
		"table users: .*blocked_at":   {"ALTER TABLE users DROP COLUMN blocked_at"},
		"index rsvps_list is missing": {"DROP INDEX rsvps_list"},
		"RSVPs for no event|rsvps refers to events": {"INSERT INTO users (id, username, created_at) VALUES ('" + servicetest.IDOf(1) + "', 'x', '2030-01-01 00:00:00+00:00')",
			"INSERT INTO rsvps (event_number, user_number, username, created_at) SELECT 99, number, username, created_at FROM users"},
	} {
		t.Run(words, func(t *testing.T) {
			servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
				db.DB.SetMaxOpenConns(1)
				db.Exec(map[string]string{"sqlite": "PRAGMA foreign_keys = OFF", "postgres": "SET session_replication_role = replica"}[db.Dialect])
				for _, statement := range damage {
					db.Exec(statement)
				}
				servicetest.Finds(t, servicetest.NewProgram(t, "DATABASE_URL="+db.URL), "fault", words)
			})
		})
	}
}

func TestCheckSQLiteFile(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t)
	p.MustRun("demo")
	file := filepath.Join(p.Dir, "worldevents.db")
	text := servicetest.Must(os.ReadFile(file))(t)
	damaged := append([]byte{}, text...)
	for i := 3 * 4096; i < len(damaged); i += 4096 {
		copy(damaged[i:], strings.Repeat("\xff", 64))
	}
	os.WriteFile(file, damaged, 0o600)
	servicetest.Finds(t, p, "fault", "damaged|malformed")
	os.WriteFile(file, bytes.Replace(text, []byte("alice"), []byte("alicf"), 1), 0o600) // in a table, and not in its index
	servicetest.Finds(t, p, "fault", "damaged: .*missing from index")
	os.WriteFile(file, []byte("this is no database at all, but text"), 0o600)
	servicetest.Finds(t, p, "fault", "not a database")
	os.WriteFile(file, text, 0o600)
	os.WriteFile(file+"-wal", []byte("x"), 0o600)
	servicetest.Finds(t, p, "warning", "-wal without a -shm")
	servicetest.Is(t, folderNames(t, p.Dir), "worldevents.db\nworldevents.db-wal\n", "files made")
	p = p.With("DATABASE_URL=sqlite:missing/worldevents.db")
	servicetest.Finds(t, p, "fault", "missing: .*no such file")
}

// What a killed service leaves is read as it is: only who may write takes the log in, or rolls a journal back.
func TestCheckAfterKill(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t)
	p.MustRun("demo")
	s := p.ServeReady()
	s.Kill()
	before := folder(t, p.Dir)
	servicetest.Finds(t, p, "ok", "foreign keys")
	servicetest.Is(t, folder(t, p.Dir), before, "the folder")
	os.WriteFile(filepath.Join(p.Dir, "worldevents.db-journal"), []byte("x"), 0o600)
	before = folder(t, p.Dir)
	servicetest.Finds(t, p, "fault", "readonly")
	servicetest.Is(t, folder(t, p.Dir), before, "the folder")
}

// What is looked at is the first host of the URL that takes writes.
func TestCheckPostgresHosts(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	beyond := strings.Replace(db.URL, "@", ":s3cr3t@", 1)
	beyond = regexp.MustCompile(`@([^/]*)/`).ReplaceAllString(beyond, "@127.0.0.1:1,$1/")
	result, _ := servicetest.Check(t, servicetest.NewProgram(t, "DATABASE_URL="+beyond))
	result.Has(t, "ok", "PostgreSQL ")
	result.Has(t, "ok", "foreign keys")
	servicetest.Finds(t, servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "DB_MAX_CONNS=10000"), "fault", "DB_MAX_CONNS=10000: the server has")
	servicetest.Finds(t, servicetest.NewProgram(t, "DATABASE_URL="+regexp.MustCompile(`/[^/?]*($|\?)`).ReplaceAllString(db.URL, "/nowhere$1")), "fault", `no connection: .*database "nowhere" does not exist`)
	servicetest.Finds(t, servicetest.NewProgram(t, "DATABASE_URL=postgres://u:s3cr3t@127.0.0.1:1/d"), "fault", `^127\.0\.0\.1:1: no connection: connection refused`)
}

// What serve would migrate, work with all the same, or refuse.
func TestCheckSchema(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL)
		db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)")
		result, _ := servicetest.Check(t, p)
		result.Has(t, "warning", "the schema is version 99999, and this program knows")
		result.Has(t, "ok", "foreign keys")
		db.Exec("DELETE FROM goose_db_version WHERE version_id > 0")
		servicetest.Finds(t, p, "fault", "a table blocked_identities of another program")
		db.Exec("DROP TABLE goose_db_version")
		servicetest.Finds(t, p, "fault", "a table blocked_identities of another program")
	})
}

// Limits of the server, the database and the role, and what else a server may be set to.
func TestCheckPostgresServer(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	address := servicetest.Must(url.Parse(db.URL))(t)
	name := strings.TrimPrefix(address.Path, "/")
	p := servicetest.NewProgram(t, "DATABASE_URL="+db.URL, "DB_MAX_CONNS=7")
	for _, test := range []struct {
		statement, undo string
		level, words    string
	}{
		{"", "", "ok", "DB_MAX_CONNS=7: the server has .* enough for"},
		{"ALTER DATABASE " + name + " CONNECTION LIMIT 8", "", "fault", "DB_MAX_CONNS=7: the server has 8 connections for this role, and an instance may need 9"},
		{"ALTER DATABASE " + name + " CONNECTION LIMIT 9", "", "warning", "enough for one instance and not for two"},
		{"ALTER DATABASE " + name + " CONNECTION LIMIT 18", "ALTER DATABASE " + name + " CONNECTION LIMIT -1", "ok", "enough for 2 instances"},
		{"ALTER DATABASE " + name + " SET synchronous_commit = off", "ALTER DATABASE " + name + " RESET synchronous_commit", "warning", "synchronous_commit=off"},
		{"ALTER DATABASE " + name + " SET default_transaction_read_only = on", "ALTER DATABASE " + name + " RESET default_transaction_read_only", "fault", "it takes no writes"},
		{"UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'rsvps_list'::regclass", "UPDATE pg_index SET indisvalid = true", "fault", "the index rsvps_list is not valid"},
		{"ALTER TABLE sessions DROP CONSTRAINT sessions_user_id_fkey", "", "fault", "3 of 4 foreign keys"},
	} {
		if test.statement != "" {
			db.Exec(test.statement)
		}
		servicetest.Finds(t, p, test.level, test.words)
		if test.undo != "" {
			db.Exec("SET default_transaction_read_only = off")
			db.Exec(test.undo)
		}
	}
	ascii := servicetest.PostgresWith(t, " ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
	result, _ := servicetest.Check(t, servicetest.NewProgram(t, "DATABASE_URL="+ascii.URL))
	result.Has(t, "fault", "the encoding of the database is SQL_ASCII")
	for _, f := range result.Findings {
		if f.Level != "ok" && !strings.Contains(f.Text, "SQL_ASCII") {
			t.Errorf("beside the encoding: %+v", f)
		}
	}
}

// A connection that leaves the machine should be encrypted.
func TestCheckPlainConnection(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	address := servicetest.Must(url.Parse(db.URL))(t)
	_, stderr := servicetest.Check(t, servicetest.NewProgram(t, "DATABASE_URL="+db.URL))
	servicetest.Lacks(t, stderr, "encrypted")
	proxy := forwardFromOutside(t, address.Host)
	address.Host = proxy
	servicetest.Finds(t, servicetest.NewProgram(t, "DATABASE_URL="+address.String()), "warning", "^"+regexp.QuoteMeta(proxy)+": the connection is not encrypted")
}

// forwardFromOutside listens on an address of this machine that is not a loopback one, and forwards to target.
func forwardFromOutside(t *testing.T, target string) (address string) {
	t.Helper()
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			return listenOn(t, ip.IP.String(), func(conn net.Conn) {
				other, err := net.Dial("tcp", target)
				if err != nil {
					return
				}
				go func() {
					defer other.Close()
					io.Copy(other, conn)
				}()
				io.Copy(conn, other)
			})
		}
	}
	servicetest.Missing(t, "this machine has no address but loopback ones")
	return ""
}
