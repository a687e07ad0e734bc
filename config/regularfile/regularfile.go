package regularfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// File is what a file was when it was read.
type File struct {
	Path    string
	Content []byte
	Mode    fs.FileMode
}

// Read returns what is in a file of at most limit bytes. Symbolic links are followed, as Kubernetes has them. Errors begin with the
// path, and quote nothing of the file.
func Read(path string, limit int64) (file File, err error) {
	defer func() {
		if operation, ok := errors.AsType[*fs.PathError](err); ok {
			err = operation.Err
		}
		if err != nil {
			err = fmt.Errorf("%q: %w", path, err)
		}
	}()
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is not waited for
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	info, err := f.Stat() // of the open file: nobody can exchange it meanwhile
	switch {
	case err != nil:
		return File{}, err
	case info.IsDir():
		return File{}, syscall.EISDIR
	case !info.Mode().IsRegular():
		return File{}, errors.New("is not a regular file")
	}
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = fmt.Errorf("is larger than %d bytes", limit)
	}
	return File{path, content, info.Mode()}, err
}
