// Package ledger decides who may hold how much of one thing, and who is next. It owns the shares of users and addresses, and the
// queues of those who want more than there is.
//
// It never touches what is held, and knows nothing of requests: the caller says who holds something, and when they release it. Stalled
// responses have no ledger, since a newcomer may read faster than those who are there: package backpressure aborts the oldest. Requests
// in flight are a plain counter in package server, and a head and the drain are bounded by time.
//
// A Ledger has two rules, for what is held and for the queue. Each bounds all, a share that a key may have while no more than half is
// held, and few, which any key may have up to the limit: one key alone gets much, and it takes many keys to leave nothing for another.
// What keys share counts for each of them, and once among all. So whoever ends gives their part back, whatever the others do; and nobody
// comes to hold, by way of a key that ends, more than they may.
//
//	Try      --> held --> Release --> the first of the next key's line begins
//	Acquire  --> held
//	         '-> in the line of its key --> held, or its context ends
//	         '-> ErrFull
//
// This is every state of a request, what it holds there, and what ends it. Bodies count by the pair of user and address, so that a stranger with
// a copied cookie cannot use up the user's share. The last column is the label of worldevents_held.
//
//	state                 holds                       at most (a share; few)       share of       ends by                              metric
//	reads its head        a connection, 16 KiB        files that may be open       -              5 s                                  -
//	waits for the start   a place in flight           MAX_IN_FLIGHT                -              half of DB_TIMEOUT, 5 s, or 2 s      requests
//	                                                                                              with a body
//	reads its body        a place in flight, 64 KiB   half of MAX_IN_FLIGHT        user+address   10 s from its first byte;            bodies
//	                                                  (a sixteenth, 8 or more; 8)                 2 s and 8 KiB for pages
//	calls the database    a place in flight           MAX_IN_FLIGHT                -              DB_TIMEOUT                           requests
//	is queued to read     a connection                256 of a user                user           10 s                                 -
//	reads a list          a place in flight           16 of a user                 user           10 s                                 list_reads
//	  from the database   a connection                a quarter of them            user           10 s                                 list_readers
//	is at the provider    a place in flight           64 (16; 4); 448 wait         address        twice its timeout                    sign_ins
//	watches a list        a connection, 40 KB         MAX_WAITING                  user           its wait (50 s at most), or the      list_watches
//	                                                  (an eighth; a 128th)                        expiry of its JWT
//	looks, has news       a connection, the list      16, or a quarter of          user           30 s                                 list_answers
//	                                                  MAX_IN_FLIGHT if less
//	                                                  (an eighth; 1)
//	writes                a place in flight           MAX_IN_FLIGHT                -              30 s, longer while the client        requests
//	                                                                                              reads 16 KiB/s
//	reads or writes more  the list                    96 MiB (48 MiB; 1 MiB)       user           likewise; beyond 1 MiB 30 s and      list_bytes
//	  than 256 KiB                                                                                a second for each 128 KiB
//	is stalled            a connection                a quarter of MAX_IN_FLIGHT   user: an       likewise, or sooner: the oldest      stalled_responses
//	                                                                               eighth;        makes room
//	                                                                               address: half
//	drains                as before                                                               a fifth of SHUTDOWN_TIMEOUT and a
//	                                                                                              second if the client does not read,
//	                                                                                              otherwise all of it; watchers at once
//
// A list is held while it is read as one of those who asked for it. A client that hangs up is gone
// from all of this within two seconds, and from the database within DB_TIMEOUT: a body ends before anything else begins, and then net/http
// notices. Package backpressure cuts a head after 105 lines, because net/http would need 250 KB of memory for more.
package ledger
