package server

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"
	"testing/fstest"
)

// A file is decompressed once: what it contains later does not matter.
func TestDecompressedOnce(t *testing.T) {
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	io.WriteString(w, "text")
	w.Close()
	d := &decompressedFiles{files: make(map[string][]byte)}
	for _, data := range [][]byte{compressed.Bytes(), []byte("not gzip")} {
		f, err := fstest.MapFS{"a.js.gz": {Data: data}}.Open("a.js.gz")
		if err != nil {
			t.Fatal(err)
		}
		r, err := d.open(f)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if _, ok := r.(io.ReadSeeker); !ok || err != nil || string(text) != "text" {
			t.Errorf("%q, %v, can seek: %v", text, err, ok)
		}
	}
}

// A file that cannot be decompressed is an error each time.
func TestDecompressError(t *testing.T) {
	d := &decompressedFiles{files: make(map[string][]byte)}
	for range 2 {
		f, err := fstest.MapFS{"a.js.gz": {Data: []byte("not gzip")}}.Open("a.js.gz")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.open(f); err == nil {
			t.Error("no error")
		}
	}
}
