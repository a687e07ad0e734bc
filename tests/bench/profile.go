package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
)

// profile collects where the service spends its processor time until ctx ends, and writes that to file for the compiler
// (go.dev/doc/pgo).
func (s *server) profile(ctx context.Context, dir, file string) error {
	parts := []string{"tool", "pprof", "-proto", "-output", file}
	for ctx.Err() == nil {
		part := filepath.Join(dir, fmt.Sprintf("%d.pprof", len(parts)))
		// Nothing is to be had of a profile whose request ends early, so that each is short.
		if err := download("http://"+s.admin+"/debug/pprof/profile?seconds=5", part); err != nil {
			return err
		}
		parts = append(parts, part)
	}
	if out, err := exec.Command("go", parts...).CombinedOutput(); err != nil {
		return fmt.Errorf("go tool pprof: %w: %s", err, out)
	}
	return nil
}

func download(url, file string) error {
	res, err := http.Get(url)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(f, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	return f.Close()
}
