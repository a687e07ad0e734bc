// Package names decides which usernames are valid, and which of them people would confuse.
//
// It works on texts alone. Unique indexes over the results of Fold and Skeleton keep two users of an identity provider from looking alike.
// Normalize (RFC 8266 section 2) makes a username of a name from elsewhere, or refuses it. Fold is equal for names that differ in case,
// space and invisible characters; Skeleton is equal for names that look alike (UTS 39 section 4).
package names
