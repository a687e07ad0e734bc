// Package backpressure keeps clients that read slowly from taking what all share. It owns the connections of the public listener:
// their deadlines, whether a waiting request counts as in flight, and the class of stalled responses.
//
// It never touches what is in a response, and knows no rules of HTTP but where the head of a request ends. The caller says
// which user and which address count. It refuses nobody. Package server refuses a new list (503) to a user whose share of stalled
// responses is full.
//
// A write to a client that reads is over at once. A response whose write takes longer than stallAfter is stalled: its request is not in
// flight meanwhile, and the response stands in a Class of bounded size, of which a user and an address may each hold a part. When one of
// these bounds is passed, the response that has been stalled longest is aborted: of the user's own, then of the address's, then of the
// user with the most. So a newcomer always gets in. A steady reader leaves the class after each write that completes, so it is always
// newer than a client at the same address that reads nothing. Without pressure a response may be stalled until its write deadline, which
// every byte that the client reads moves on.
//
//	        Begin                        Queue                    resume
//	head ---------->  in flight  ------------------->  queued  ------------>  in flight
//	                    |    ^
//	  more than         |    |  the client
//	  stallAfter        v    |  makes room
//	                   stalled  ----------------->  aborted    others need its room
//	                      |
//	                      '---------------------->  ended      the write deadline, one second after Hurry (the instance stops),
//	                                                           or later for a client that reads minRate
//
// Watchers call Leave before their first look, and give up their place in flight for good. When such a request is queued or stalled, it
// gives back its turn (package livelist) instead.
package backpressure
