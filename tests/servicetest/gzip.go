package servicetest

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
)

// compressedFrom is the size from which on the service compresses a list, in bytes of JSON.
const compressedFrom = 1400

// lists counts the lists that were asked for without a word about encodings.
var lists atomic.Int64

// AlternateGzip makes every second list be asked for as gzip, so that tests see both forms. It leaves a request alone
// that has Accept-Encoding.
func AlternateGzip(r *http.Request) {
	if r.Header["Accept-Encoding"] == nil && lists.Add(1)%2 == 0 {
		r.Header.Set("Accept-Encoding", "gzip")
	}
}

// Decompress returns the content of a body that was read whole.
func Decompress(header http.Header, body []byte) ([]byte, error) {
	if header.Get("Content-Encoding") != "gzip" {
		return body, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// encodingFaults holds the encoding of a list against what the client said. sent is the body as it came.
func encodingFaults(r *http.Request, res *http.Response, sent, content []byte) (faults []string) {
	if vary := res.Header.Values("Vary"); len(vary) != 1 || vary[0] != "Cookie, Origin, Accept-Encoding" {
		faults = append(faults, "Vary lacks a header that lists depend on")
	}
	encoding := res.Header.Get("Content-Encoding")
	held := res.StatusCode == http.StatusOK && res.Header.Get("ETag") != ""
	want := ""
	if held && len(content) >= compressedFrom && r.Header.Get("Accept-Encoding") == "gzip" {
		want = "gzip"
	}
	switch r.Header.Get("Accept-Encoding") {
	case "", "gzip":
		if encoding != want {
			faults = append(faults, "Content-Encoding is "+strconv.Quote(encoding)+", want "+strconv.Quote(want))
		}
	}
	if held && res.Header.Get("Content-Length") != strconv.Itoa(len(sent)) {
		faults = append(faults, "Content-Length is not that of the body")
	}
	return faults
}
