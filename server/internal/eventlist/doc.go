// Package eventlist serves listEvents: it reads a world's events, shares that reading among the requests that wait
// for it, and writes the response.
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
// A list that clients have already is not read again. Once it has been read only to say 304, the database is asked whether
// its world has changed since. While it has not, the ETag is the same.
//
// A request may wait for news of a list that its client has. A hub reads the list again when a hint says that it may have
// changed, once for all who wait, and sweeps for changes of which no hint came. Who waits holds nothing but a connection
// and a place in the hub: the request is none that is in flight, and comes back only to have its response written.
package eventlist
