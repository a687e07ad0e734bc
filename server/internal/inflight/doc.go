// Package inflight bounds how many requests are handled at once, how many connections there are, and how long a client may take to read.
//
// A request in flight holds a place. It gives the place back while its body arrives and while it is queued, and for good when it begins to
// watch a list, or when its response begins:
//
//	          Take              Pause
//	arrived -------> in flight <-----> its body arrives, or it is queued
//	                     |
//	                     '---------->  it watches, or its response is read
//
// What a response that is read slowly holds is bounded by package eventlist, by user; its time by Writer; and their number by Connections.
package inflight
