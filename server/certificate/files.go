package certificate

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"worldevents/config/regularfile"
)

// The files in the folder, and the most that one may hold, in bytes.
const (
	certFile = "cert.pem"
	keyFile  = "key.pem"
	maxFile  = 1 << 20
)

// Files is the certificate of two files.
type Files struct {
	dir, host string
	current   atomic.Pointer[tls.Certificate] // with its Leaf
}

// OpenFiles reads cert.pem (the certificate, and then those that vouch for it) and key.pem in dir. Clients know the service
// as host.
func OpenFiles(dir, host string) (*Files, error) {
	f := &Files{dir: dir, host: host}
	return f, f.Reload()
}

// Reload reads the files again. After an error the certificate stays what it was. One that clients would refuse replaces none
// that they accept. No error quotes what the files hold.
func (f *Files) Reload() error {
	var text [2][]byte
	for i, name := range []string{certFile, keyFile} {
		path := filepath.Join(f.dir, name)
		var err error
		if text[i], _, err = regularfile.Read(path, maxFile); err != nil {
			return withoutOperation(path, err)
		}
	}
	cert, err := tls.X509KeyPair(text[0], text[1])
	if err != nil {
		return fmt.Errorf("%s and %s in %s are no certificate with its key: %w", certFile, keyFile, f.dir, err)
	}
	now, old := time.Now(), f.current.Load()
	if why := unusable(cert.Leaf, f.host, now); why != "" && old != nil && unusable(old.Leaf, f.host, now) == "" {
		return fmt.Errorf("%s: %s", filepath.Join(f.dir, certFile), why)
	}
	f.current.Store(&cert)
	return nil
}

// Config implements Source.
func (f *Files) Config() *tls.Config {
	return newConfig(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.current.Load(), nil })
}

// Expiry implements Source.
func (f *Files) Expiry() time.Time { return f.current.Load().Leaf.NotAfter }

// Warnings implements Source.
func (f *Files) Warnings() []string {
	var all []string
	if text := warning(f.current.Load().Leaf, f.host, time.Now()); text != "" {
		all = append(all, text)
	}
	key := filepath.Join(f.dir, keyFile)
	if info, err := os.Stat(key); err == nil && info.Mode().Perm()&0o066 != 0 {
		all = append(all, "other users of this machine can read or write the key: chmod 600 "+key)
	}
	return all
}

// withoutOperation is an error about a path, without the name of the system call.
func withoutOperation(path string, err error) error {
	if e := new(fs.PathError); errors.As(err, &e) {
		err = e.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}
