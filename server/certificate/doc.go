// Package certificate has the certificate that the public listener shows: one of files, or one of an authority that speaks
// ACME (RFC 8555). It owns the folder TLS_DIR.
//
// It never listens: package serve does, with the Config of a Source. It decides nothing about who may connect, and its
// errors never contain a key.
//
// A Source holds the current certificate, and replaces it while connections go on: Files when it is told to read the folder again,
// ACME when the certificate nears its end. A certificate that cannot be read or renewed leaves the current one as it is.
//
//	none  -- the first -->  current  -- reload, renewal -->  current  -- neither works in time -->  expired, still shown
package certificate
