// Package certificate has the certificate that the public listener shows: one of files, or one of an authority that speaks
// ACME (RFC 8555). It owns the folder TLS_DIR.
//
// It never listens: package serve does, with the Config of a Source. It decides nothing about who may connect, and its
// errors never contain a key.
//
// A Source replaces the certificate while connections go on: Files when it is told to read the folder again, ACME, by autocert, when
// the certificate nears its end. A certificate that cannot be read or renewed leaves the current one as it is.
//
//	none  -- start, first handshake -->  current  -- reload, renewal -->  current  -- neither in time -->  expired, still shown
package certificate
