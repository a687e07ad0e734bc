// Package eventlist serves listEvents. It shares each reading of a list among the requests that ask for it, caches the list, and writes the
// response. It owns the JSON of lists, their ETags, their cursors, and the memory that they take.
//
// The store decides who may see a list, with each reading or right before it. Package livelist waits for changes. No connection to the
// database is kept while a client reads.
//
// A request that comes while its list is being read waits for the next reading. So a reading begins after all its requests came: everybody
// reads all acknowledged writes, on any number of instances. A list is cached with its Moment. For the next request one statement, which
// also begins after the request, checks whether the world has changed and whether the caller may see it.
//
//	Get --> queued, few readings of a user --> kept, and its world unchanged? --yes--.
//	                                               | no                              v
//	                                               v                            304, or whole: ETag, gzip
//	                                          read whole ---> at most 32 MiB, ------^
//	                                               |          and kept if small
//	                                               |
//	                              no room: 503 <---'---> too long: 400, which is kept, too
//
// One statement reads a list, so that it is of one moment, and its JSON and gzip are made once. A reading or response of more than 256 KiB
// takes part of a budget, of which each user has a share: a shared list counts for each user with a response, and once in total. A reading
// counts for one of its callers.
//
// A cursor is the end of a page. The digest ties it to its world, and is no secret:
//
//	0                  8                                  24              32 bytes, base64url
//	| milliseconds     | id of the last event             | SHA-256 of     |
//	| of scheduledAt   |                                  | world and both |
package eventlist
