// Package names says which usernames there may be, and which of them people would take for each other.
//
// It works on texts alone. That no two users of an identity provider look alike is decided by unique indexes over what Fold and Skeleton
// return.
//
// A name from elsewhere passes through Normalize (RFC 8266 section 2) and becomes a username or is refused. Fold is equal for names that
// differ in case, space and invisible characters; Skeleton is equal for names that look alike (UTS 39 section 4).
package names
