// Package certificate has the certificate that the public listener shows: one of files, or one of an authority that speaks
// ACME (RFC 8555). It owns the folder TLS_DIR. It never listens, and none of its errors contains a key.
//
// A certificate that cannot be read or renewed leaves the current one as it is:
//
//	none  -- start, first handshake -->  current  -- reload, renewal -->  current  -- neither in time -->  expired, still shown
package certificate
