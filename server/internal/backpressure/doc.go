// Package backpressure keeps clients that read slowly from taking what all share.
//
// A write to a client that reads is over at once. Where it is not over after a moment, the response waits for its client:
// meanwhile its request is none that is in flight, and the response belongs to a class of bounded size. A user and an
// address may each hold a part of it. Where one of these bounds is passed, the response that has waited longest is
// aborted: of the user's own, then of the address's, then of the user with the most. A newcomer is never refused:
// somebody who reads slowly but steadily is always newer than somebody who does not read, also behind the same address.
//
// Without pressure a response may wait until its write deadline, which every byte that the client reads moves on.
package backpressure
