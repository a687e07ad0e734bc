package operating

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"worldevents/server"
	"worldevents/tests/servicetest"
)

// signsWith is what the log says of the key that signs.
func signsWith(key string) string { return fmt.Sprintf(`"signs":"%s"`, server.KeyID([]byte(key))) }

// showsNone fails the test if a log has one of the secrets.
func showsNone(t *testing.T, s *servicetest.Process, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		servicetest.Lacks(t, s.Log.String(), secret)
	}
}

// SIGHUP puts other keys in force: the first signs, and a JWT of a key that is gone is invalid at once, also one that was
// verified before. Who waits for news goes on. A file that is wrong changes nothing.
func TestReloadKeys(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		p := servicetest.NewProgram(t, "JWT_SECRET=", "JWT_SECRET_FILE=mount/key", "DATABASE_URL="+db.URL, "LOG_FORMAT=json", "LOG_LEVEL=warn")
		mount := filepath.Join(p.Dir, "mount")
		generation := 0
		// Kubernetes replaces the link to the folder that all files are in.
		publish := func(key string) {
			generation++
			folder := fmt.Sprint("..", generation)
			servicetest.NoError(t, errors.Join(
				os.MkdirAll(filepath.Join(mount, folder), 0o755),
				os.WriteFile(filepath.Join(mount, folder, "key"), []byte(key), 0o644),
				os.Symlink(folder, filepath.Join(mount, "..new")),
				os.Rename(filepath.Join(mount, "..new"), filepath.Join(mount, "..data")),
			))
		}
		publish(keyA)
		servicetest.NoError(t, os.Symlink("..data/key", filepath.Join(mount, "key")))
		s := p.ServeReady()
		issue := func(name string) string { return p.For(t).Issue(name) }
		is := func(what, path, cookies string, want int, part string) {
			t.Helper()
			status, body := s.Do("GET", path, "", cookies)
			servicetest.Is(t, status, want, "%s: %s", what, body)
			servicetest.Contains(t, body, part)
		}
		alice := issue("alice")
		is("before", servicetest.Plaza, alice, 200, "")
		is("before, from the cache", servicetest.Plaza, alice, 200, "")

		s.HangUp(`SIGHUP: JWT_SECRET_FILE was read again","changed":false,` + signsWith(keyA))
		tag := s.Ask("GET", servicetest.Plaza, "", alice).Header.Get("ETag")
		publish(keyB + "," + keyA + "\n")
		s.HangUp(`SIGHUP: JWT_SECRET_FILE was read again","changed":true,` + signsWith(keyB))
		is("the old key is the second", servicetest.Plaza, alice, 200, "")
		is("the old key is the second", servicetest.SessionPath, alice, 200, "")
		servicetest.True(t, s.Ask("GET", servicetest.Plaza, "", alice).Header.Get("ETag") != tag, "another key makes another ETag")
		bob := issue("bob")
		is("the new key", servicetest.Plaza, bob, 200, "")
		servicetest.Is(t, keyOf(t, refreshed(t, s, issue("carol"))), server.KeyID([]byte(keyB)), "the key of a refresh")

		var waiting sync.WaitGroup
		waiting.Go(func() {
			servicetest.Contains(t, s.Ask("GET", servicetest.Plaza+"?wait=50", "", alice, servicetest.IfNoneMatch(s.Ask("GET", servicetest.Plaza, "", alice).Header.Get("ETag"))).Body, "Chess")
		})
		servicetest.Eventually(t, "alice waits", func() bool { return s.Metric("worldevents_list_watches") == 1 })
		publish(keyB)
		s.HangUp(`"changed":true,` + signsWith(keyB))
		is("the key is gone", servicetest.Plaza, alice, 401, "invalid_token")
		is("the key is gone", servicetest.SessionPath, alice, 400, "Invalid token")
		is("the other key", servicetest.Plaza, bob, 200, "")
		s.Is(200, "POST", servicetest.Plaza, servicetest.EventBody, bob)
		waiting.Wait()
		servicetest.Is(t, keyOf(t, refreshed(t, s, alice)), server.KeyID([]byte(keyB)), "the key of a refresh without a valid JWT")

		for text, want := range map[string]string{
			"":                                "is empty",
			"short-secret":                    "key 1 is shorter than 32 bytes",
			keyC + "," + keyC:                 "key 2 is key 1 again",
			"your-256-bit-secret-" + keyC:     "key 1 is a known example",
			keyC + "\n" + keyB:                "must be one line",
			strings.Repeat(keyC, 64<<10/64+1): "is larger than 65536 bytes",
		} {
			publish(text)
			s.HangUp(`"level":"ERROR","msg":"SIGHUP: JWT_SECRET_FILE stays as it is"`)
			servicetest.Contains(t, s.Log.String(), want)
			is("after a bad file", servicetest.Plaza, bob, 200, "")
		}
		servicetest.NoError(t, os.Remove(filepath.Join(mount, "..data")))
		s.HangUp("no such file or directory")
		is("without a file", servicetest.Plaza, bob, 200, "")

		publish(keyC)
		s.HangUp(signsWith(keyC))
		is("all keys are other ones", servicetest.Plaza, bob, 401, "invalid_token")
		is("all keys are other ones", servicetest.Plaza, issue("dave"), 200, "Chess")
		showsNone(t, s, keyA, keyB, keyC, keyC[:31], "short-secret")
	})
}

// Files that change are taken over without a signal, whatever holds them, and leave one line. What cannot be used leaves one, too, and a
// missing file none.
func TestFilesAreLookedAt(t *testing.T) {
	servicetest.EachDatabase(t, func(t *testing.T, db *servicetest.Database) {
		first, second := servicetest.NewCertificate(t, day, 90*day), servicetest.NewCertificate(t, day, 90*day)
		a, b := newPair(t), newPair(t)
		p := withFiles(t, first).With("JWT_SECRET=", "JWT_SECRET_FILE=key", "JWT_PRIVATE_KEY_FILE=jwt.pem", "DATABASE_URL=", "DATABASE_URL_FILE=url", "LOG_FORMAT=json", "LOG_LEVEL=warn")
		write := func(name, text string) {
			servicetest.WriteSecret(t, filepath.Join(p.Dir, name), text)
		}
		write("key", keyA)
		write("jwt.pem", a.pem)
		write("url", db.URL)
		s := p.ServeReady()
		trust := servicetest.Trusting("localhost", first, second)
		says := func(lines ...string) {
			t.Helper()
			for _, line := range lines {
				s.AwaitLog(line)
			}
		}
		write("key", keyB+","+keyA)
		write("jwt.pem", b.pem+a.pem)
		second.Write(t, filepath.Join(p.Dir, "tls"))
		write("url", "postgres://hunter2@127.0.0.1:1/d")
		says(`"level":"INFO","msg":"JWT_SECRET_FILE was read again","changed":true`, server.KeyID([]byte(keyB)),
			`"level":"INFO","msg":"JWT_PRIVATE_KEY_FILE was read again","changed":true`, b.id(),
			`"level":"INFO","msg":"the certificate was read again","changed":true`,
			`"level":"ERROR","msg":"DATABASE_URL_FILE stays as it is"`)
		servicetest.Is(t, shown(t, s, trust), second.Serial, "the certificate")

		write("tls/cert.pem", string(first.Cert))
		servicetest.NoError(t, os.Remove(filepath.Join(p.Dir, "jwt.pem")))
		write("key", "short-secret")
		write("url", db.URL)
		says(`"level":"ERROR","msg":"the certificate stays as it is"`, `"level":"ERROR","msg":"JWT_SECRET_FILE stays as it is"`)
		write("key", keyB)
		s.Says(`"JWT_SECRET_FILE was read again"`, 2)
		servicetest.Is(t, shown(t, s, trust), second.Serial, "the certificate beside another key")
		for line, n := range map[string]int{
			"JWT_SECRET_FILE stays as it is": 1, "the certificate stays as it is": 1, "DATABASE_URL_FILE stays as it is": 1, "the certificate was read again": 1,
			"JWT_PRIVATE_KEY_FILE was read again": 1, "JWT_PRIVATE_KEY_FILE stays": 0, "DATABASE_URL_FILE was read again": 0, "SIGHUP": 0,
		} {
			s.Says(line, n)
		}
		showsNone(t, s, keyA, keyB, "short-secret", "hunter2")
	})
}

// refreshed returns the JWT of a refresh.
func refreshed(t *testing.T, s *servicetest.Process, cookies string) string {
	t.Helper()
	browser := servicetest.NewBrowser(s.URL, http.DefaultTransport)
	browser.Do("GET", servicetest.RefreshPath, "", servicetest.Header("Cookie", cookies)).Is(t, 200)
	return browser.Cookies["token"]
}

func keyOf(t *testing.T, token string) string {
	t.Helper()
	header, _ := servicetest.DecodeJWT(t, token)
	return fmt.Sprint(header["kid"])
}

// Reloads under load refuse nobody who holds a JWT of a key that stays, however many signals come.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t, "JWT_SECRET=", "JWT_SECRET_FILE=key", "LOG_FORMAT=json", "LOG_LEVEL=warn")
	key := filepath.Join(p.Dir, "key")
	servicetest.WriteSecret(t, key, keyA)
	s := p.ServeReady()
	alice := servicetest.Header("Cookie", p.Issue("alice"))
	const clients = 100
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	var done atomic.Bool
	var requests atomic.Int64
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			browser := servicetest.NewBrowser(s.URL, transport)
			for !done.Load() && !t.Failed() {
				browser.Do("GET", servicetest.SessionPath, "", alice).Is(t, 200)
				requests.Add(1)
			}
		})
	}
	for i := range 9 {
		before := requests.Load()
		first := []string{keyA, keyB, keyC}[i%3]
		keys := append([]string{first}, []string{keyA}[:min(i%3, 1)]...)
		servicetest.WriteSecret(t, key, strings.Join(keys, ",")+"\n")
		s.HangUp(signsWith(first))
		servicetest.Eventually(t, "requests go on", func() bool { return t.Failed() || requests.Load() >= before+clients/4 })
	}
	servicetest.WriteSecret(t, key, keyB+","+keyA)
	for range 50 {
		s.Signal(syscall.SIGHUP)
	}
	s.HangUp(signsWith(keyB))
	done.Store(true)
	all.Wait()
	servicetest.Is(t, s.Admin("/readyz"), 200, "/readyz")
	s.Signal(syscall.SIGTERM)
	s.Signal(syscall.SIGHUP)
	servicetest.Is(t, s.Wait(30*time.Second), 0, "exit status")
	showsNone(t, s, keyA, keyB, keyC)
}

// The file of SQLite is the same as long as the process runs, and a warning that holds at start holds when a file is read again.
func TestReloadSQLite(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t, "DATABASE_URL=", "DATABASE_URL_FILE=url", "JWT_SECRET=", "JWT_SECRET_FILE=key", "LOG_FORMAT=json",
		"APP_ENV=production", "BASE_URL=https://example.org", "OIDC_ISSUER=https://login.example.org", "OIDC_CLIENT_ID=worldevents")
	url, key := filepath.Join(p.Dir, "url"), filepath.Join(p.Dir, "key")
	servicetest.WriteSecret(t, url, "sqlite:worldevents.db\n")
	servicetest.WriteSecret(t, key, keyA)
	s := p.ServeReady()
	s.HangUp(`SIGHUP: DATABASE_URL_FILE was read again","changed":false`)
	for _, text := range []string{"sqlite:other.db", "postgres://u:hunter2@127.0.0.1:1/d", "nonsense-hunter2"} {
		servicetest.WriteSecret(t, url, text)
		s.HangUp(`SIGHUP: DATABASE_URL_FILE stays as it is","error":"only the user and the password may change`)
	}
	servicetest.NoError(t, os.Chmod(key, 0o666))
	s.HangUp("its mode lets others write it")
	servicetest.Contains(t, s.Log.String(), "JWT_SECRET_FILE stays as it is")
	servicetest.Is(t, s.Admin("/readyz"), 200, "/readyz")
	showsNone(t, s, "hunter2", keyA)
}

// A database that says nothing keeps no key from being put in force.
func TestReloadKeysBesideSilentDatabase(t *testing.T) {
	t.Parallel()
	db := servicetest.Postgres(t)
	proxy, address := db.ThroughProxy()
	p := servicetest.NewProgram(t, "DATABASE_URL=", "DATABASE_URL_FILE=url", "JWT_SECRET=", "JWT_SECRET_FILE=key", "LOG_FORMAT=json", "DB_TIMEOUT=30s")
	url, key := filepath.Join(p.Dir, "url"), filepath.Join(p.Dir, "key")
	servicetest.WriteSecret(t, url, address)
	servicetest.WriteSecret(t, key, keyA)
	s := p.ServeReady()
	proxy.Silence()
	servicetest.WriteSecret(t, url, strings.Replace(address, "postgres@", "postgres:other@", 1))
	s.HangUp(`JWT_SECRET_FILE was read again","changed":false`)
	servicetest.WriteSecret(t, key, keyB)
	s.HangUp(`JWT_SECRET_FILE was read again","changed":true,` + signsWith(keyB))
	log := s.Log.String()
	servicetest.Lacks(t, log, "SIGHUP: DATABASE_URL_FILE")
	servicetest.Contains(t, log, "all former keys are gone")
	servicetest.WriteSecret(t, key, keyC+","+keyB)
	s.HangUp(signsWith(keyC))
	s.Says("all former keys are gone", 1)
	s.Signal(syscall.SIGKILL)
}

// Keys of these tests, in hexadecimal as openssl prints them.
const (
	keyA = "1f0e9d8c7b6a59483726150493a2b1c0d1e2f3041526374859607182a3b4c5d6"
	keyB = "2a4c6e80b1d3f597c8e0a2d4f6081b3d5f7193a5c7e9fb0d2e4f60718293a4b5"
	keyC = "3b5d7f91c2e4a608d9f1b3e5071a2c4e60829ab4d6f80a1c3d5e7f8091a2b3c4"
)

// Every command finds the secrets in files, as Kubernetes mounts them. Package config holds what such files may be.
func TestSecretFiles(t *testing.T) {
	t.Parallel()
	p := servicetest.NewProgram(t, "JWT_SECRET="+keyA)
	s := p.ServeReady()
	mounts := t.TempDir()
	servicetest.NoError(t, errors.Join(
		os.Mkdir(mounts+"/..2030_01_01", 0o755), os.Symlink("..2030_01_01", mounts+"/..data"),
		os.WriteFile(mounts+"/..2030_01_01/jwt", []byte(keyA), 0o644), os.Symlink("..data/jwt", mounts+"/jwt"),
		os.WriteFile(mounts+"/..2030_01_01/url", []byte("sqlite:worldevents.db\n"), 0o644), os.Symlink("..data/url", mounts+"/url"),
	))
	from := p.With("JWT_SECRET=", "DATABASE_URL=", "JWT_SECRET_FILE="+mounts+"/jwt", "DATABASE_URL_FILE="+mounts+"/url")
	production := from.With("APP_ENV=production", "BASE_URL=https://example.org")
	production.MustRun("migrate")
	production.MustRun("user", "add", "alice")
	cookies := from.Issue("alice")
	s.Is(200, "GET", servicetest.Plaza, "", cookies)
	production.MustRun("event", "list", "--world", "plaza")
	production.MustCopy("sqlite:copy.db")
	checked, stderr := servicetest.Check(t, production)
	servicetest.True(t, checked.OK, "check: %s", stderr)
	servicetest.Lacks(t, fmt.Sprint(checked, stderr), keyA)
	for name, want := range map[string]string{
		"JWT_SECRET_FILE": mounts + "/jwt", "JWT_SECRET": "xxxxx", "DATABASE_URL_FILE": mounts + "/url", "DATABASE_URL": "sqlite:worldevents.db",
	} {
		servicetest.Is(t, checked.Settings[name], want, "check: %s", name)
	}
}

// Questions to the owner of the worlds have the token that its file has now.
func TestReloadWorldToken(t *testing.T) {
	t.Parallel()
	sent := make(chan string, 1)
	owner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent <- r.Header.Get("Authorization")
		w.Header().Set("Cache-Control", "no-store")
	}))
	defer owner.Close()
	p := servicetest.NewProgram(t, "WORLD_ACCESS_URL="+owner.URL, "WORLD_ACCESS_TOKEN_FILE=token", "LOG_FORMAT=json")
	write := func(token string) {
		servicetest.NoError(t, os.WriteFile(filepath.Join(p.Dir, "token"), []byte(token+"\n"), 0o600))
	}
	write("f1rst")
	s := p.ServeReady()
	alice := p.Issue("alice")
	asks := func(want string) {
		t.Helper()
		s.Is(200, "GET", servicetest.Plaza, "", alice)
		servicetest.Is(t, <-sent, "Bearer "+want, "the header Authorization")
	}
	asks("f1rst")
	write("n3xt")
	s.HangUp(`WORLD_ACCESS_TOKEN_FILE was read again","changed":true`)
	asks("n3xt")
	write("")
	s.HangUp(`WORLD_ACCESS_TOKEN_FILE stays as it is`)
	asks("n3xt")
	servicetest.Lacks(t, s.Log.String(), "f1rst", "n3xt")
}
