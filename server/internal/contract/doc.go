// Package contract holds requests against openapi.yaml, so that no handler meets a request that the contract does not
// allow, and no rule about requests is written down twice.
//
// Load turns the contract into operations once, at the start. Validate then compares each request with its operation:
// the path, the query and the body together, so that a client learns of every bad field at once. The words for a bad
// field are the contract's own: a schema says them in its extension x-message. A schema without x-message describes a
// value that nobody has to get right, such as an opaque id. Load refuses a contract with rules that Validate does not know.
// kin-openapi would enforce any rule, but takes twice as long for those that there are: it reads the contract, and a test
// holds what is accepted here against what it accepts.
//
// JSON is read more strictly than encoding/json reads it. Duplicate names, invalid UTF-8, trailing data and deep nesting
// are refused, because programs disagree about what such a document means. The generated code reads a body a second
// time, into its own type, and finds nothing there that has not been validated.
package contract
