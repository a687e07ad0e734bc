// Package names says which usernames there may be, and which of them people would take for each other.
//
// It works on texts alone. Unique indexes over what Fold and Skeleton return keep two users of an identity provider from looking alike.
//
// Normalize (RFC 8266 section 2) makes a username of a name from elsewhere, or refuses it. Fold is equal for names that differ in case,
// space and invisible characters; Skeleton is equal for names that look alike (UTS 39 section 4).
package names
