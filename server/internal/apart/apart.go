// Package apart keeps the stacks of waiting connections small. The runtime shrinks a stack only if at most a quarter is in use, so the
// deepest call would set its size. With 10,000 waiting connections 8 KB each count.
package apart

import (
	"fmt"
	"runtime/debug"
)

// Run runs fn on a stack of its own, and panics if fn does.
func Run(fn func() error) (err error) {
	var panicked any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				panicked = fmt.Sprintf("%v\n%s", r, debug.Stack())
			}
		}()
		err = fn()
	}()
	<-done
	if panicked != nil {
		panic(panicked) // on the goroutine that can respond to it
	}
	return err
}
