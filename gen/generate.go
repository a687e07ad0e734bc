// Package gen is openapi.yaml as Go: the types of its bodies and parameters, and the strict Echo server that the
// server package implements. Only this file and datetime.go are written by hand; after a change of the contract run
// make generate and follow the compiler.
package gen

//go:generate go tool -modfile=tools.mod oapi-codegen -config config.yaml ../openapi.yaml
