// Package inflight bounds the requests handled at once, the connections, and the time that a client takes to read.
//
// A request in flight keeps a place, except while its body arrives and while it is queued. It gives the place back for good when it begins
// to watch a list, or when its response begins:
//
//	          Take              Pause
//	arrived -------> in flight <-----> its body arrives, or it is queued
//	                     |
//	                     '---------->  it watches, or its response is read
//
// The memory of responses is bounded by package eventlist, their time by Writer, and their number by Connections.
package inflight
