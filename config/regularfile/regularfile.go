package regularfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Read returns what is in a file of at most limit bytes. Symbolic links are followed, as Kubernetes has them. Errors begin with the
// path, and quote nothing of the file.
func Read(path string, limit int64) ([]byte, fs.FileInfo, error) {
	content, info, err := read(path, limit)
	if operation, ok := errors.AsType[*fs.PathError](err); ok {
		err = operation.Err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%q: %w", path, err)
	}
	return content, info, nil
}

func read(path string, limit int64) ([]byte, fs.FileInfo, error) {
	// Without O_NONBLOCK a pipe that nobody writes to would be waited for.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat() // of the open file: nobody can exchange it meanwhile
	switch {
	case err != nil:
		return nil, nil, err
	case info.IsDir():
		return nil, nil, syscall.EISDIR
	case !info.Mode().IsRegular():
		return nil, nil, errors.New("is not a regular file")
	}
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = fmt.Errorf("is larger than %d bytes", limit)
	}
	return content, info, err
}
