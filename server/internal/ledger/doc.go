// Package ledger decides which key may acquire how much of a resource, and whose turn is next. It owns the shares of users and addresses,
// and their queues. The caller decides when to acquire and release. Requests in flight and connections are counters in package inflight.
//
// A Ledger has two rules, for the resource and for the queue. Each bounds the total, a share of a key while no more than half is used, and
// few, which any key may have up to the limit: one key alone gets much, and only many keys can leave nothing for another. What keys share
// counts for each of them, and once in total. So each key releases its part independently.
//
//	Try      --> held --> Release --> the first of the next key's line begins
//	Acquire  --> held
//	         '-> in the line of its key --> held, or its context ends
//	         '-> ErrFull
//
// All states of a request, what it holds there, and what ends it. The last column is the label of worldevents_held.
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
//	has its world asked   a connection                64 (8; 1); 16,384 wait       user           5 s to wait, 2 s to ask              world_questions
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
// A list counts for one of its callers while it is read. A client that hangs up is gone from all states within two seconds, and from the
// database within DB_TIMEOUT: its body has ended, so net/http notices.
package ledger
