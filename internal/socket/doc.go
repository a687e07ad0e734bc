// Package socket writes to clients at the least cost.
//
// While a goroutine is in a system call for more than 20 microseconds, Go's scheduler gives its place to another thread. A write to a
// socket on the same machine often takes that long: it wakes the receiver, and the kernel runs the receiver first. A call that cannot
// block gains nothing when its place is given away, so a Writer makes it without telling the scheduler.
package socket
