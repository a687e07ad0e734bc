// Package eventlist serves listEvents: it reads a world's events, shares each reading among the requests that ask for the same list,
// keeps the list, and writes the response. It owns the JSON of lists, their ETags, their cursors, and the memory that they take.
//
// It never decides who may see a list: the store does, with each reading or right before it. It does not wait for a list to change, which is package
// livelist's, above it. No connection to the database is held while a client reads.
//
// Requests share readings. A request that comes while its list is being read waits for the next reading. So a reading has always begun
// after all who share it asked: everybody reads their own writes, and those of anybody who has had a response, on any number of
// instances. A list is cached with its Moment. When somebody asks again, one statement checks whether the world has changed and
// whether the caller may see it; that statement, too, begins after they asked.
//
//	Get --> queued, few readings of a user --> kept, and its world unchanged? --yes--.
//	                                               | no                              v
//	                                               v                            304, or whole: ETag, gzip
//	                                          read whole ---> at most 32 MiB, ------^
//	                                               |          and kept if small
//	                                               |
//	                              no room: 503 <---'---> too long: 400, which is kept, too
//
// A list is read in one statement, so that it is of one moment, and its JSON and gzip are made once for all who share it. A reading or a
// response of more than 256 KiB takes a part of a budget, of which each user has a share: a shared list counts for each user whose response
// holds it, and once among all. A reading counts as one of those who asked.
//
// A cursor is where a page ends. The digest ties it to its world, and is no secret:
//
//	0                  8                                  24              32 bytes, base64url
//	| milliseconds     | id of the last event             | SHA-256 of     |
//	| of scheduledAt   |                                  | world and both |
package eventlist
