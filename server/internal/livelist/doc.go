// Package livelist lets requests of listEvents watch a list: their response comes once the list differs from the client's. It owns the
// hub, which knows who watches what, and the turns in which watchers look.
//
// It never reads a list itself: package eventlist does, for a look as for any other request. It does not know what was written, only
// which worlds have changed.
//
// The hub asks the database one question for all watchers: which worlds have changed since the last question? It asks after a write of
// this instance, when another instance says that it has written, and otherwise once a second. Nothing is lost in between: if a write
// commits after the first look, the watcher is already registered, so the hub's next question finds the write.
//
// The response comes at once without If-None-Match, for a list without ETag, and when MAX_WAITING watch already, when the user's share
// of these is full, or when the instance stops. In the last three cases a 304 has Retry-After.
//
//	Watch --> registered --> queued for a turn --> looks --> the list differs --> 200
//	                               ^                 |  '--> session revoked: 401; no turn, or none to read, in time: 503
//	     the world has changed:    |                 v the same
//	     at most every 250 ms      '------------- watches: holds its network connection and one of MAX_WAITING places,
//	                                                 |     no database connection and no place in flight
//	                                                 '--> its time is over: looks again --> 200 or 304
//	                                                 '--> the instance stops --> 304 at once
//	                                                 '--> the client is gone
//
// A revoked session is noticed at the next look. Before its first look a watcher gives its place in flight back. A look and its response take one of
// few turns instead. So thousands who are woken together are served one after the other, and leave the database to others, too.
package livelist
