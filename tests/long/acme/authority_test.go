// Package acme has the service get its certificate from Pebble, the test authority of Let's Encrypt.
package acme

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

func TestMain(m *testing.M) {
	status := servicetest.MainLong(m)
	os.RemoveAll(pebble.dir)
	os.Exit(status)
}

// pebble has the programs, which are built once for all tests. Their versions are pinned in pebble.mod, and are no part of the module.
var pebble struct {
	once sync.Once
	dir  string
	err  error
}

// pebbleTool returns a program of Pebble's.
func pebbleTool(t *testing.T, name string) (path string) {
	t.Helper()
	pebble.once.Do(func() {
		if pebble.dir, pebble.err = os.MkdirTemp("", "pebble"); pebble.err != nil {
			return
		}
		const commands = "github.com/letsencrypt/pebble/v2/cmd/"
		build := exec.Command("go", "build", "-modfile=tests/long/acme/pebble.mod", "-o", pebble.dir+"/", commands+"pebble", commands+"pebble-challtestsrv")
		build.Dir = servicetest.Root(t)
		if out, err := build.CombinedOutput(); err != nil {
			pebble.err = fmt.Errorf("%w %s", err, out)
		}
	})
	if pebble.err != nil {
		servicetest.Missing(t, "Pebble cannot be built: %v", pebble.err)
	}
	return filepath.Join(pebble.dir, name)
}

// authority is a Pebble.
type authority struct {
	// host is the name whose certificate the service asks for, and directory where.
	host, directory string
	// root is the file of the certificate that Pebble's own listener has.
	root string
	log  *servicetest.Log
	stop func()

	t                  *testing.T
	management, config string
}

// settings of an authority.
type settings struct {
	TLSPort  int                       `json:"tlsPort"`
	HTTPPort int                       `json:"httpPort"`
	Blocked  []string                  `json:"domainBlocklist"`
	Profiles map[string]map[string]int `json:"profiles"`

	Listen     string `json:"listenAddress"`
	Management string `json:"managementListenAddress"`
	Cert       string `json:"certificate"`
	Key        string `json:"privateKey"`
	Algorithm  string `json:"keyAlgorithm"`
}

// newAuthority prepares an authority that looks for challenges at these ports of 127.0.0.1, and does not start it.
func newAuthority(t *testing.T, s settings) *authority {
	t.Helper()
	dir, address := t.TempDir(), servicetest.FreeAddress(t)
	a := &authority{host: "we.example.test", directory: "https://" + address + "/dir", t: t, management: servicetest.FreeAddress(t)}
	servicetest.NewCertificate(t, time.Hour, 24*time.Hour).Write(t, dir)
	a.root, a.config = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "config.json")
	s.Listen, s.Management, s.Cert, s.Key, s.Algorithm = address, a.management, a.root, filepath.Join(dir, "key.pem"), "ecdsa"
	s.Profiles = map[string]map[string]int{"default": {"validityPeriod": 90 * 24 * 3600}}
	text := servicetest.Must(json.Marshal(map[string]settings{"pebble": s}))(t)
	servicetest.WriteSecret(t, a.config, string(text))
	return a
}

// start starts the authority, and a name server for which every name is 127.0.0.1. They end with the test.
func (a *authority) start() {
	a.t.Helper()
	names := servicetest.FreeAddress(a.t)
	servicetest.Background(a.t, exec.Command(pebbleTool(a.t, "pebble-challtestsrv"), "-dnsserver", names, "-defaultIPv6", "",
		"-management", servicetest.FreeAddress(a.t), "-doh", "", "-http01", "", "-https01", "", "-tlsalpn01", ""))
	command := exec.Command(pebbleTool(a.t, "pebble"), "-config", a.config, "-dnsserver", names)
	command.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0")
	a.log, a.stop = servicetest.Background(a.t, command)
	for _, address := range []string{names, a.management} {
		servicetest.Eventually(a.t, "Pebble listens", func() bool {
			conn, err := net.Dial("tcp", address)
			if err == nil {
				conn.Close()
			}
			return err == nil
		})
	}
}

// issued is how many certificates the authority has given.
func (a *authority) issued() int { return strings.Count(a.log.String(), "Issued certificate serial") }

// roots are what clients of the service trust: Pebble makes another root at each start.
func (a *authority) roots() *x509.CertPool {
	a.t.Helper()
	trust, pool := &tls.Config{RootCAs: x509.NewCertPool()}, x509.NewCertPool()
	trust.RootCAs.AppendCertsFromPEM(servicetest.Must(os.ReadFile(a.root))(a.t))
	browser := servicetest.NewBrowser("https://"+a.management, servicetest.HTTPS(a.t, trust, 0).Transport)
	if root := browser.Do("GET", "/roots/0", ""); !pool.AppendCertsFromPEM([]byte(root.Body)) {
		a.t.Fatalf("no root: %v", root)
	}
	return pool
}
