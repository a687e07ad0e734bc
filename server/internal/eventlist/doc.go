// Package eventlist serves listEvents: it reads a world's events, shares that reading among the requests that wait
// for it, keeps the list, and writes the response.
//
// Requests share readings. While a list is being read, requests for the same list wait for the next reading and share
// it. A reading that a request gets has always begun after the request did, so that everybody reads their own writes,
// and those of anybody who has had a response, on any number of instances.
//
// A list is held or streamed. One of at most 1 MiB of JSON is held in memory whole: it is of one moment, it has an ETag, and its
// JSON is made once for all who share it. So is its gzip form, which has the same ETag, when a client accepts that. A larger list is
// streamed batch by batch, never compressed: those who share its beginning go on from there by themselves. No
// connection to the database is held while a client reads, and no more than a batch in memory.
//
// What responses hold while their clients read is bounded. A list larger than 32 KiB needs a part of a budget, of which
// each user may have a part. Where there is none, the list is read again in small batches, each of which is written before
// the next is read. It then goes without ETag.
//
// Held lists are kept, each with the moment that it is of. Whoever asks for one again has the database asked, in one statement,
// whether its world has changed since, and whether they may have it. While it has not, it is not read again. That answer, too,
// has always begun after the request did.
package eventlist
