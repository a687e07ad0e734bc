// Package inspect looks at a database for an operator who asks whether the service could run with it.
//
// It changes nothing: it makes no file, migrates nothing, and keeps nobody from writing. A Finding has no secret.
//
// Database looks first at what would keep the service from starting, then at rights, settings and space, and at last at the data:
// damage, references that lead nowhere, missing indexes.
package inspect
