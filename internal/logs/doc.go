// Package logs writes what the process has to say to stderr, in the format of the settings.
//
// It keeps nobody waiting for whoever reads the log: one goroutine writes, in order, and lines that come while 2 MiB wait are dropped and
// counted. It decides nothing about what is logged.
//
// Events are written at once. The lines of requests wait up to 10 ms for each other, because a system call for each would be a tenth of
// a request's time. They may fill half of the queue, so that they never push out an event. Under systemd each line begins with its
// priority, which the journal takes away and keeps (sd-daemon(3)).
package logs
