// Package eventlist serves listEvents: it reads a world's events, shares each reading among the requests that ask for the same list,
// keeps the list, and writes the response. It owns the JSON of lists, their ETags, their cursors, and the memory that they take.
//
// It never decides who may see a list: the store does, with each reading or right before it. It does not wait for a list to change, which is package
// livelist's, above it. No connection to the database is held while a client reads.
//
// Requests share readings. A request that comes while its list is being read waits for the next reading. So a reading has always begun
// after all who share it asked: everybody reads their own writes, and those of anybody who has had a response, on any number of
// instances. A held list is cached with its Moment. When somebody asks again, one statement checks whether the world has changed and
// whether the caller may see it; that statement, too, begins after they asked.
//
//	Get --> queued, 16 readings of a user --> kept, and its world unchanged? --yes--------------------.
//	                                                  | no                                            v
//	                                                  v                                          304, or whole
//	                                          read the beginning --> at most 1 MiB of JSON? --yes--> held: ETag, gzip, kept
//	                                                                          | no
//	                                                                          v
//	                                                  streamed: a batch is read, written, forgotten; no ETag
//	                                                                          |
//	                                          no room for usual batches?  --> small batches, few at once
//
// A list that is held is of one moment, and its JSON and gzip are made once for all who share it. A response of more than 32 KiB takes a
// part of a budget while its client reads, of which each user has a share: a shared list counts for each user who holds it, and once
// among all. The reading of a list takes a part beyond its first 256 KiB, as one of those who asked: if none of them has room left, it is
// streamed, and so is a list that takes more than half of DB_TIMEOUT to read. Those who share the beginning of a streamed list go on from
// there by themselves. A held list that finds no room in the budget is read again in small batches, without ETag.
//
// A cursor is where a page ends. The digest ties it to its world, and is no secret:
//
//	0                  8                                  24              32 bytes, base64url
//	| milliseconds     | id of the last event             | SHA-256 of     |
//	| of scheduledAt   |                                  | world and both |
package eventlist
