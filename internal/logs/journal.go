package logs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"syscall"
)

// isJournal reports whether a file is the stream to systemd's journal (systemd.exec(5)). A child process with another stderr inherits
// JOURNAL_STREAM, too.
func isJournal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}

// journal begins each line with its priority. systemd's journal takes that away and keeps it (sd-daemon(3)).
type journal struct{ io.Writer }

var priorities = map[byte]string{'D': "<7>", 'I': "<6>", 'W': "<4>", 'E': "<3>"}

// Write implements io.Writer. Package slog writes a line at once: the time, the level, as "level":"WARN" or level=WARN, and the rest.
func (j journal) Write(line []byte) (int, error) {
	_, level, _ := bytes.Cut(line, []byte("level"))
	if _, err := j.Writer.Write(append([]byte(priorities[bytes.TrimLeft(level, `":=`)[0]]), line...)); err != nil {
		return 0, err
	}
	return len(line), nil
}
