// Package inspect looks at a database for an operator who asks whether the service could run with it.
//
// It changes nothing: no file is made, nothing is migrated, no lock waits. A Finding has no secret.
//
// Database looks first at what keeps the service from starting, then at rights, settings and space, and at last at the data: damage,
// references that lead nowhere, missing indexes.
package inspect
