package server

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"sync"

	"github.com/swaggest/swgui/v5/static"
	"github.com/vearutop/statigz"

	"worldevents/server/internal/accept"
)

// newSwaggerFiles serves the files of Swagger UI, which are embedded as gzip alone. statigz only looks for the word "gzip"
// in the first line of Accept-Encoding, so it is told in that word what the header means.
func newSwaggerFiles() http.Handler {
	encoding := statigz.GzipEncoding()
	encoding.Decoder = (&decompressedFiles{files: make(map[string][]byte)}).open
	files := statigz.FileServer(static.FS, func(s *statigz.Server) { s.Encodings = []statigz.Encoding{encoding} })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told := *r
		told.Header = maps.Clone(r.Header)
		delete(told.Header, "Accept-Encoding")
		if accept.Gzip(r.Header["Accept-Encoding"]) {
			told.Header.Set("Accept-Encoding", "gzip")
		}
		files.ServeHTTP(w, &told)
	})
}

// decompressedFiles keeps files for clients that do not accept gzip: to decompress the largest takes 10 ms of CPU. The two
// that are served have 1.7 MB.
type decompressedFiles struct {
	mu    sync.Mutex
	files map[string][]byte // by the name of the compressed file
}

// open returns an io.ReadSeeker of what the file contains that r reads. It returns the errors of reading it.
func (d *decompressedFiles) open(r io.Reader) (io.Reader, error) {
	info, err := r.(fs.File).Stat()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	content, ok := d.files[info.Name()]
	if !ok {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		if content, err = io.ReadAll(z); err != nil {
			return nil, err
		}
		d.files[info.Name()] = content
	}
	return bytes.NewReader(content), nil
}
