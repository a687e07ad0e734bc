// Package ledger decides who may hold how much of one thing, and who is next. It owns the shares of users and addresses, and the
// queues of those who want more than there is.
//
// It never touches what is held, and knows nothing of requests: who releases what they hold, and when, is the caller's. One row of the
// table below has no ledger: a stalled response is never refused, since a newcomer may read faster than those who are there. Package
// backpressure has the oldest make room instead.
//
// A Ledger has two rules, for what is held and for the queue. Each bounds all, a share that a key may have while no more than half is
// held, and few, which any key may have up to the limit: one key alone gets much, and it takes many keys to leave nothing for another.
//
//	Try      --> held --> Release --> the first of the next key's line begins
//	Acquire  --> held
//	         '-> in the line of its key --> held, or its context ends
//	         '-> ErrFull
//
// This is every state of a request, what it holds there, and what ends it. Shares are an address's before a user is known, then
// a user's; both are where a stranger could use up what an account has. The last column is the label of worldevents_held.
//
//	state                 holds                       at most (a share; few)       share of       ends by                              metric
//	reads its head        a connection, 16 KiB        files that may be open       -              5 s                                  -
//	waits for the start   a place in flight           MAX_IN_FLIGHT                -              half of DB_TIMEOUT, 5 s, or 2 s      requests
//	                                                                                              with a body
//	reads its body        a place in flight, 64 KiB   half of MAX_IN_FLIGHT        address, user  10 s from its first byte;            bodies
//	                                                  (an eighth; 8)                              2 s and 8 KiB for pages
//	calls the database    a place in flight           MAX_IN_FLIGHT                -              DB_TIMEOUT                           requests
//	is queued to read     a connection                256 of a user                user           10 s                                 -
//	reads a list          a place in flight, 1 MiB    16 of a user                 user           DB_TIMEOUT                           list_reads
//	is at the provider    a place in flight           64 (16; 4); 448 wait         address        twice its timeout                    sign_ins
//	watches a list        a connection, 40 KB         MAX_WAITING                  user           its wait, 50 s                       list_watches
//	                                                  (an eighth; a sixteenth)
//	looks, has news       a connection, the list      16 (2; 1)                    user           30 s                                 list_answers
//	writes                a place in flight           MAX_IN_FLIGHT                -              30 s, longer for who reads           requests
//	writes a long list    768 KiB or the list         24 MiB (3 MiB; 768 KiB)      user           30 s, longer for who reads           list_bytes
//	  without such room   a small batch               512 (64; 4), 4 read at once  user           likewise                             small_streams, small_reads
//	is stalled            a connection                a quarter of MAX_IN_FLIGHT   user, address  30 s, longer for who reads, or       stalled_responses
//	                                                                                              sooner: the oldest makes room
//	drains                as before                                                               a fifth of SHUTDOWN_TIMEOUT for who
//	                                                                                              does not read, else all of it
//
// Besides, four lists of more than 256 KiB are read at once to be held (long_reads). Whoever hangs up is gone from all of this within
// two seconds, from the database within DB_TIMEOUT: bodies end before anything else begins, and then net/http notices. A head ends,
// cut, behind 105 lines: more of them would take 250 KB in the map of net/http.
package ledger
