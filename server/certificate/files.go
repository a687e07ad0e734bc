package certificate

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	current
}

// OpenFiles reads cert.pem (the certificate, and then those that vouch for it) and key.pem in dir. Clients know the service
// as host.
func OpenFiles(dir, host string) (*Files, error) {
	f := &Files{dir: dir, host: host}
	return f, f.Reload()
}

// Reload reads the files again. After an error the certificate stays what it was. One that clients would refuse replaces none
// that they accept.
func (f *Files) Reload() error {
	cert, err := readPair(f.dir)
	if err != nil {
		return err
	}
	if now, old := time.Now(), f.Load(); old != nil && unusable(old.Leaf, f.host, now) == "" {
		if why := unusable(cert.Leaf, f.host, now); why != "" {
			return fmt.Errorf("%s: %s", filepath.Join(f.dir, certFile), why)
		}
	}
	f.Store(&cert)
	return nil
}

// Config implements Source.
func (f *Files) Config() *tls.Config {
	return newConfig(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.Load(), nil })
}

// Warnings implements Source.
func (f *Files) Warnings() []string {
	var all []string
	if text := warning(f.Load().Leaf, f.host, time.Now()); text != "" {
		all = append(all, text)
	}
	key := filepath.Join(f.dir, keyFile)
	if info, err := os.Stat(key); err == nil && info.Mode().Perm()&0o066 != 0 {
		all = append(all, "other users of this machine can read or write the key: chmod 600 "+key)
	}
	return all
}

// readPair reads certificate and key. No error quotes what the files hold.
func readPair(dir string) (cert tls.Certificate, err error) {
	certPEM, err := readFile(filepath.Join(dir, certFile))
	if err != nil {
		return cert, err
	}
	keyPEM, err := readFile(filepath.Join(dir, keyFile))
	if err != nil {
		return cert, err
	}
	if cert, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		return cert, fmt.Errorf("%s and %s in %s are no certificate with its key: %w", certFile, keyFile, dir, err)
	}
	return cert, nil
}

func readFile(path string) ([]byte, error) {
	text, _, err := regularfile.Read(path, maxFile)
	if err != nil {
		return nil, withoutOperation(path, err)
	}
	return text, nil
}

// withoutOperation is an error about a path, without the name of the system call.
func withoutOperation(path string, err error) error {
	if e := new(fs.PathError); errors.As(err, &e) {
		err = e.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}
