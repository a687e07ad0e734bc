// Package logs writes what the process has to say to stderr, in the format of the settings. It decides nothing about what is logged.
//
// Logging never blocks a request. Lines of requests leave half of the queue to those of events:
//
//	event   -->  queue of 4,096 lines  -->  one goroutine  -->  stderr
//	request -->    | full, or half full      writes all that is queued, in order, 10 ms after
//	               v for a request           the first: a system call for each line would be
//	             dropped, counted            a tenth of a request's time
//
// Under systemd each line begins with its priority, which the journal takes away and keeps (sd-daemon(3)).
package logs
