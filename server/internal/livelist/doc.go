// Package livelist lets requests of listEvents watch a list: the response comes once the list differs from the client's. It owns the hub,
// which knows the watchers of each world, and the turns in which watchers read their lists, by package eventlist.
//
// The hub asks the database one question for all watchers: which worlds have changed since the last question? It asks after a write of this
// instance, after a notification of another, and otherwise once a second. A watcher registers before its first look, so it misses no write.
//
// The response comes at once without If-None-Match, for a list without ETag, when MAX_WAITING or the user's share of it watch already, and
// when the instance stops. In the last two cases a 304 has Retry-After.
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
// The next look notices a revoked session. A watcher gives its place in flight back before its first look. A look and its response take one
// of few turns, so thousands of woken watchers leave the database to others, too.
package livelist
