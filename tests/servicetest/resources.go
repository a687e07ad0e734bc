package servicetest

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"time"
)

// resources are what a service must give back: connections to the database, too, are files and goroutines.
type resources struct{ goroutines, files int }

func inUse() resources {
	open, _ := os.ReadDir("/proc/self/fd") // on Linux; elsewhere goroutines alone are counted
	return resources{runtime.NumGoroutine(), len(open)}
}

// slack is for what the runtime opens once and keeps, such as its poller.
const slack = 5

// released waits until no more is in use than before, and else says what is.
func (before resources) released() bool {
	var now resources
	err := poll(20*time.Second, func() error {
		runtime.GC() // package net keeps the pipes that it copies through until they are collected
		if now = inUse(); now.goroutines > before.goroutines+slack || now.files > before.files+slack {
			return os.ErrDeadlineExceeded
		}
		return nil
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "the tests leave %d goroutines and %d files behind:\n", now.goroutines-before.goroutines, now.files-before.files)
		pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
	}
	return err == nil
}
