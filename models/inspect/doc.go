// Package inspect looks at a database for an operator who asks whether the service could run with it. It changes nothing: it makes no file,
// migrates nothing, and keeps nobody from writing. First come the reasons against a start, then rights, settings and space, and at last the
// data: damage, references that lead nowhere, missing indexes.
package inspect
