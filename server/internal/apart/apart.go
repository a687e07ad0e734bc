// Package apart keeps the stacks of connections small. A connection that waits for news, one request after the other, would keep
// the stack of the deepest call that any of them has made: the runtime makes no stack smaller of which more than a quarter is in
// use. With 10,000 who wait each 8 KB count.
package apart

import (
	"fmt"
	"runtime/debug"
)

// Run runs fn on a stack of its own, and returns its error. A panic of fn is one of the caller.
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
