package inflight

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// A body beyond its first piece must be read within half a minute and a second more for each 16 KiB, or for each 128 KiB if it is longer
// than 1 MiB. The place is given back when the response begins.
func TestWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			size  int
			pause time.Duration // of the client for each piece
			want  int           // bytes that it gets
		}{
			{pieceSize, 100 * time.Hour, pieceSize},
			{maxSlow, 16 * time.Second, maxSlow}, // 16 KiB a second
			{maxSlow, firstTime + 17*time.Second, pieceSize},
			{maxSlow, 27 * time.Second, 3 * pieceSize},
			{5 << 20, 2 * time.Second, 5 << 20},
			{5 << 20, firstTime + 3*time.Second, pieceSize},
			{5 << 20, 16 * time.Second, 3 * pieceSize}, // 16 KiB a second
		} {
			places, place := New(1), new(Place)
			if !places.Take(place) {
				t.Fatal("no place")
			}
			client := &slowClient{ResponseWriter: httptest.NewRecorder(), pause: test.pause}
			w := NewWriter(client, place)
			w.Header().Set("Content-Length", strconv.Itoa(test.size))
			w.WriteHeader(http.StatusOK)
			if places.Held() != 0 {
				t.Error("it is in flight")
			}
			n, err := w.Write(make([]byte, test.size))
			if client.read != test.want || n != test.want || (err == nil) != (test.want == test.size) {
				t.Errorf("%+v: %d of %d bytes, %v", test, client.read, n, err)
			}
		}
	})
}

// slowClient reads a piece, and then nothing for a while.
type slowClient struct {
	http.ResponseWriter
	pause    time.Duration
	deadline time.Time
	read     int
}

func (c *slowClient) SetWriteDeadline(t time.Time) error {
	c.deadline = t
	return nil
}

func (c *slowClient) Write(p []byte) (int, error) {
	if c.read > 0 {
		time.Sleep(c.pause)
	}
	if !c.deadline.IsZero() && time.Now().After(c.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	c.read += len(p)
	return len(p), nil
}
