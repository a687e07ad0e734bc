// Package certificate has the certificate of the public listener: from files, or from an ACME authority (RFC 8555). It owns the folder
// TLS_DIR. None of its errors contains a key.
//
// A certificate that cannot be read or renewed leaves the current one as it is:
//
//	none  -- start, first handshake -->  current  -- reload, renewal -->  current  -- neither in time -->  expired, still shown
package certificate
