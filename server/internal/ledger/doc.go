// Package ledger decides who may hold how much of one thing, and who is next. It owns the shares of users and addresses, and the
// queues of those who want more than there is.
//
// It never touches what is held, and knows nothing of requests: the caller says who holds something, and when they release it. Requests
// in flight and connections are plain counters in package inflight, and a head, a body and the drain are bounded by time.
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
// This is every state of a request, what it holds there, and what ends it. The last column is the label of worldevents_held.
//
//	state                 holds                       at most (a share; few)       share of       ends by                              metric
//	reads its head        a connection, 16 KiB        MAX_CONNECTIONS              -              5 s                                  connections
//	waits for the start   a place in flight           MAX_IN_FLIGHT                -              half of DB_TIMEOUT, 5 s, or 2 s      requests
//	                                                                                              with a body
//	reads its body        a connection, 64 KiB        MAX_CONNECTIONS              -              10 s from its first byte;            connections
//	                                                                                              2 s and 8 KiB for pages
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
//	writes                a connection                MAX_CONNECTIONS              -              30 s, and a second for each 16 KiB     connections
//	writes a list of      the list                    8 MiB of a user            user           likewise                             small_list_bytes
//	  16 to 256 KiB
//	reads or writes more  the list                    96 MiB (48 MiB; 1 MiB)       user           likewise; beyond 1 MiB 30 s and      list_bytes
//	  than 256 KiB                                                                                a second for each 128 KiB
//	drains                as before                                                               SHUTDOWN_TIMEOUT; watchers at once
//
// A list is held while it is read as one of those who asked for it. A client that hangs up is gone
// from all of this within two seconds, and from the database within DB_TIMEOUT: a body ends before anything else begins, and then net/http
// notices.
package ledger
