// Package backpressure keeps clients that read slowly from taking what all share. It owns the connections of the public listener:
// their deadlines, what a request's place in flight is worth while it waits, and the class of stalled responses.
//
// It never touches what is in a response, and knows no rules of HTTP but where the head of a request ends. Who the user is and which
// address counts, the caller says. It refuses nobody who comes: package ledger does that.
//
// A write to a client that reads is over at once. A response whose write takes longer than stallAfter is stalled: its request is not in
// flight meanwhile, and the response stands in a Class of bounded size, of which a user and an address may each hold a part. When one
// of these bounds is passed, the response that has been stalled longest is aborted: of the user's own, then of the address's, then of
// the user with the most. So a newcomer always gets in: somebody who reads slowly but steadily is always newer than somebody who does
// not read, also behind the same address. Without pressure a response may be stalled until its write deadline, which every byte that
// the client reads moves on.
//
//	        Begin                        Queue                    resume
//	head ---------->  in flight  ------------------->  queued  ------------>  in flight
//	                    |    ^
//	  more than         |    |  the client
//	  stallAfter        v    |  makes room
//	                   stalled  ----------------->  aborted    others need its room
//	                      |
//	                      '---------------------->  ended      the write deadline, a second after Hurry,
//	                                                           or later for a client that reads minRate
//
// A request that has called Leave is never in flight again. It gives its own turn back where another would pause.
package backpressure
