// Package gen is openapi.yaml as Go: the types of its bodies and parameters, the strict Echo server that the server
// package implements, and its text as JSON, which is read at every start and takes a tenth of the time. Only this file and
// datetime.go are written by hand; after a change of the contract run make generate and follow the compiler.
package gen

import _ "embed"

//go:generate go run -trimpath -modfile=tools.mod github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen -config config.yaml ../openapi.yaml
//go:generate go run ./tojson ../openapi.yaml openapi.json

// OpenAPI is openapi.yaml as JSON, in the order of its text.
//
//go:embed openapi.json
var OpenAPI []byte
