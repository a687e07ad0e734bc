package pages

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"worldevents/server/internal/accept"
)

// The files of Swagger UI, which make generate extracts from its package.
//
//go:embed swagger/*.gz
var swagger embed.FS

// swaggerFile is served in two forms.
type swaggerFile struct {
	name, tag  string
	compressed []byte
	// plain is made for the first client without gzip: it takes 10 ms, and up to 1.7 MB.
	plain func() []byte
}

func newSwaggerFile(name string) *swaggerFile {
	compressed, err := swagger.ReadFile("swagger/" + name + ".gz")
	if err != nil {
		panic(err) // it is embedded
	}
	return &swaggerFile{name, fmt.Sprintf("%x", sha256.Sum256(compressed))[:32], compressed, sync.OnceValue(func() []byte {
		z, err := gzip.NewReader(bytes.NewReader(compressed))
		if err != nil {
			panic(err)
		}
		plain, err := io.ReadAll(z)
		if err != nil {
			panic(err)
		}
		return plain
	})}
}

// ServeHTTP serves the form that the client accepts. Each has its own ETag (RFC 9110 section 8.8.3.3).
func (f *swaggerFile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Vary", "Accept-Encoding")
	tag, content := f.tag, f.compressed
	if accept.Gzip(r.Header["Accept-Encoding"]) {
		tag += "-gzip"
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.Itoa(len(content))) // ServeContent leaves it out where there is an encoding
	} else {
		content = f.plain()
	}
	h.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, f.name, time.Time{}, bytes.NewReader(content))
}
