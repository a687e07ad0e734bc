package certificate

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"worldevents/config/regularfile"
)

// maxFile bounds a file, in bytes.
const maxFile = 1 << 20

// Files is the certificate of two files.
type Files struct {
	cert, key, host string
	current         atomic.Pointer[tls.Certificate] // with its Leaf
}

// OpenFiles reads cert.pem, with the chain of authorities, and key.pem in dir. Clients know the service as host.
func OpenFiles(dir, host string) (*Files, error) {
	f := &Files{cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"), host: host}
	files, err := f.Read()
	if err == nil {
		_, err = f.Use(files)
	}
	return f, err
}

// Read returns the content of the files, for Use.
func (f *Files) Read() ([]regularfile.File, error) {
	cert, err := regularfile.Read(f.cert, maxFile)
	if err != nil {
		return nil, err
	}
	key, err := regularfile.Read(f.key, maxFile)
	return []regularfile.File{cert, key}, err
}

// Use takes over the result of Read, and reports whether the certificate changed. After an error the old one stays. A certificate that
// clients would refuse replaces no valid one. Errors quote no content.
func (f *Files) Use(files []regularfile.File) (changed bool, err error) {
	pair, err := tls.X509KeyPair(files[0].Content, files[1].Content)
	if err != nil {
		return false, fmt.Errorf("%s and %s are no certificate with its key: %w", f.cert, f.key, err)
	}
	now, old := time.Now(), f.current.Load()
	if why := unusable(pair.Leaf, f.host, now); why != "" && old != nil && unusable(old.Leaf, f.host, now) == "" {
		return false, fmt.Errorf("%s: %s", f.cert, why)
	}
	f.current.Store(&pair)
	return old == nil || !slices.EqualFunc(pair.Certificate, old.Certificate, bytes.Equal), nil
}

// Config implements Source.
func (f *Files) Config() *tls.Config {
	return newConfig(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.current.Load(), nil })
}

// Expiry implements Source.
func (f *Files) Expiry() time.Time { return f.current.Load().Leaf.NotAfter }

// Warnings returns faults of the files for the operator.
func (f *Files) Warnings() (all []string) {
	if text := warning(f.current.Load().Leaf, f.host); text != "" {
		all = append(all, text)
	}
	if info, err := os.Stat(f.key); err == nil {
		want := fs.FileMode(0o600)
		if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid == 0 {
			want = 0o640 // the service reads it by its group
		}
		if info.Mode().Perm()&0o066&^want != 0 {
			all = append(all, fmt.Sprintf("other users of this machine can read or write the key: chmod %o %s", want, f.key))
		}
	}
	return all
}
