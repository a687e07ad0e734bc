package eventlist

import (
	"bytes"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// minCompressed is the size from which on a list is compressed, in bytes of JSON. A smaller one fits into one packet of
// the network as it is.
const minCompressed = 1400

var (
	// compressorPool has what gzip needs while it compresses, 0.8 MB each. It is returned before the client reads.
	compressorPool = sync.Pool{New: func() any {
		w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // fails for other levels alone
		return w
	}}
	// As for records: a response may hold its buffer for long.
	compressedPool, smallCompressedPool = sync.Pool{New: func() any { return new(bytes.Buffer) }}, sync.Pool{New: func() any { return new(bytes.Buffer) }}
)

// compress returns data as gzip (RFC 1952), in a buffer that releaseCompressed takes back.
func compress(data []byte) *bytes.Buffer {
	pool := &smallCompressedPool
	if len(data) > maxOwn {
		pool = &compressedPool
	}
	out := pool.Get().(*bytes.Buffer)
	out.Reset()
	w := compressorPool.Get().(*gzip.Writer)
	w.Reset(out)
	w.Write(data) // writing to a buffer never fails
	w.Close()
	w.Reset(nil) // the pool must not keep the buffer
	compressorPool.Put(w)
	return out
}

// releaseCompressed keeps the buffer, of size bytes of data, for another list.
func releaseCompressed(b *bytes.Buffer, size int) {
	switch {
	case size > maxOwn && b.Cap() <= maxPooled:
		compressedPool.Put(b)
	case b.Cap() <= maxOwn:
		smallCompressedPool.Put(b)
	}
}
