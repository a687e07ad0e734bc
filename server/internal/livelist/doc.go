// Package livelist lets requests of listEvents watch a list: their response comes once it is another one than the client has. It owns
// the hub, which knows who watches what, and the turns in which watchers look.
//
// It never reads a list itself: package eventlist does, for a look as for any other request. It does not know what was written, only
// which worlds have changed.
//
// The hub asks the database one question for all watchers: which worlds have changed since the last question? It asks after a write of
// this instance, when another instance says that it has written, and each second without either. Nothing is lost in between: a watcher
// is known to the hub before it looks for the first time. A write that this look does not see is committed after it, so a question that
// sees the write begins after that, too.
//
//	Watch --> registered --> queued for a turn --> looks --> the list is another one --> 200
//	                               ^                 |
//	     the world has changed:    |                 v the same
//	     at most each 250 ms       '------------- watches, and holds a connection and a place
//	                                                 |
//	                                                 '--> its time is over: looks again --> 200 or 304
//	                                                 '--> the instance stops, the client sends something --> 304 at once
//	                                                 '--> the client is gone
//
// A look, and the response that comes of it, takes one of few turns: thousands who are woken together are served one after the other,
// and leave the database to others, too.
package livelist
