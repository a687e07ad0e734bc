package eventlist

import (
	"bytes"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// minCompressed is the size of the smallest list that is compressed, in bytes of JSON. A smaller one fits into one network packet.
const minCompressed = 1400

// compressorPool has compressors of 0.8 MB each, which are put back before the client reads.
var compressorPool = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // fails for other levels alone
	return w
}}

// compress returns data as gzip (RFC 1952).
func compress(data []byte) []byte {
	var out bytes.Buffer
	out.Grow(len(data) / 4)
	w := compressorPool.Get().(*gzip.Writer)
	w.Reset(&out)
	w.Write(data) // writing to a buffer never fails
	w.Close()
	w.Reset(nil) // the pool must not keep the buffer
	compressorPool.Put(w)
	return bytes.Clone(out.Bytes())
}
