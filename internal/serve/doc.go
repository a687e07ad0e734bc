// Package serve runs an instance: it opens the listeners, keeps the certificate, migrates once the database responds, prunes, reads
// secrets again when their files change and on SIGHUP, and completes what is in flight before it ends.
//
// It decides nothing about a request; package server does. A client has 5 s to send the head of a request and 10 s to send all of it. A
// response has config.WriteTimeout, which package inflight extends while the client reads. An idle connection is closed after two
// minutes.
//
// A stop has this order. A second signal ends the process at once:
//
//	signal    readiness is 503, watchers get their 304, background work ends
//	  |       SIGTERM alone: requests are still taken for a fifth of SHUTDOWN_TIMEOUT, until proxies have noticed
//	Shutdown  the listeners close, and requests in flight complete, until SHUTDOWN_TIMEOUT at the latest
//	  |
//	end       the store closes, after other instances have been told of the last writes
package serve
