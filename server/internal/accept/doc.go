// Package accept reads what a client accepts. It owns the header Accept-Encoding.
//
// It never touches a response: whoever writes one asks, and does what the answer says.
//
// Gzip compares three weights, of gzip, of no coding and of all others (RFC 9110 section 12.5.3). A text that cannot be read has
// weight 0, so that nobody gets a coding that they may not understand.
package accept
