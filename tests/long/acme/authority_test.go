// Package acme has the service get its certificate from Pebble, the test authority of Let's Encrypt.
package acme

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

func TestMain(m *testing.M) {
	status := servicetest.MainLong(m)
	os.RemoveAll(pebble.dir)
	os.Exit(status)
}

// pebble is built once for all tests. Its versions are pinned in pebble.mod, and are no part of the module.
var pebble struct {
	once sync.Once
	dir  string
	err  error
}

func pebbleBinary(t *testing.T) string {
	t.Helper()
	pebble.once.Do(func() {
		if pebble.dir, pebble.err = os.MkdirTemp("", "pebble"); pebble.err != nil {
			return
		}
		build := exec.Command("go", "build", "-modfile=tests/long/acme/pebble.mod", "-o", pebble.dir+"/", "github.com/letsencrypt/pebble/v2/cmd/pebble")
		build.Dir = servicetest.Root(t)
		if out, err := build.CombinedOutput(); err != nil {
			pebble.err = fmt.Errorf("%w %s", err, out)
		}
	})
	if pebble.err != nil {
		servicetest.Missing(t, "Pebble cannot be built: %v", pebble.err)
	}
	return filepath.Join(pebble.dir, "pebble")
}

// authority is a Pebble.
type authority struct {
	// host is the name whose certificate the service asks for, and directory where.
	host, directory string
	// root is the file of the certificate that Pebble's own listener has.
	root string
	log  *servicetest.Log

	t          *testing.T
	management string
	config     string
	resolver   string
	process    *exec.Cmd
}

// settings of an authority.
type settings struct {
	TLSPort  int               `json:"tlsPort"`
	HTTPPort int               `json:"httpPort"`
	Blocked  []string          `json:"domainBlocklist"`
	Profiles map[string]config `json:"profiles"`
}

type config struct {
	Validity int `json:"validityPeriod"` // in seconds
}

// newAuthority prepares an authority that looks for challenges at these ports of 127.0.0.1, and does not start it.
func newAuthority(t *testing.T, s settings) *authority {
	t.Helper()
	a := &authority{host: "we.example.test", t: t, log: new(servicetest.Log), resolver: newResolver(t)}
	dir := t.TempDir()
	servicetest.NewCertificate(t, time.Hour, 24*time.Hour).Write(t, dir)
	a.root, a.config = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "config.json")
	address := servicetest.FreeAddress(a.t)
	a.directory = "https://" + address + "/dir"
	a.management = servicetest.FreeAddress(a.t)
	text, err := json.Marshal(map[string]any{"pebble": struct {
		settings
		Listen     string `json:"listenAddress"`
		Management string `json:"managementListenAddress"`
		Cert       string `json:"certificate"`
		Key        string `json:"privateKey"`
		Algorithm  string `json:"keyAlgorithm"`
	}{s, address, a.management, a.root, filepath.Join(dir, "key.pem"), "ecdsa"}})
	if err == nil {
		err = os.WriteFile(a.config, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// start starts the authority. It ends with the test.
func (a *authority) start() {
	a.t.Helper()
	a.process = exec.Command(pebbleBinary(a.t), "-config", a.config, "-dnsserver", a.resolver)
	a.process.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0")
	a.process.Stdout, a.process.Stderr = a.log, a.log
	a.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := a.process.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(a.stop)
	servicetest.Eventually(a.t, 20*time.Second, "Pebble listens", func() bool {
		conn, err := net.Dial("tcp", a.management)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

func (a *authority) stop() {
	a.process.Process.Kill()
	a.process.Wait()
}

// issued is how many certificates the authority has given.
func (a *authority) issued() int { return strings.Count(a.log.String(), "Issued certificate serial") }

// roots are what clients of the service trust: Pebble makes another root at each start.
func (a *authority) roots() *x509.CertPool {
	a.t.Helper()
	text, err := os.ReadFile(a.root)
	if err != nil {
		a.t.Fatal(err)
	}
	own, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(own.Bytes)
	if err != nil {
		a.t.Fatal(err)
	}
	trust := servicetest.Trusting("localhost")
	trust.RootCAs.AddCert(cert)
	res, err := servicetest.HTTPS(a.t, trust, 0).Get("https://" + a.management + "/roots/0")
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	var root bytes.Buffer
	io.Copy(&root, res.Body)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(root.Bytes()) {
		a.t.Fatalf("no root: %s", &root)
	}
	return pool
}
