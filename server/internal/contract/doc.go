// Package contract checks requests against openapi.yaml, so that no handler meets a request that the contract does not
// allow, and no rule about requests is written down twice. It owns the reading of bodies, and the words for a bad field: they are the
// contract's own, in its extension x-message.
//
// It never touches a response, and authenticates nobody. It makes no rule that the contract does not have. kin-openapi's Schema enforces
// the contract's; of its own errors only the keyword reaches a client. A parameter is a string or an integer, and a body an object of
// strings, numbers and booleans: Load refuses other contracts, schemas without x-message that have rules, and formats that nobody would look
// at. A parameter's schema without x-message accepts any text, such as an opaque id.
//
// Load turns the contract into operations once, at the start. Validate compares each request with its operation, path, query and body
// together, so that a client learns of every bad field at once:
//
//	body:  declared as JSON?  -->  at most 64 KiB?  -->  one JSON document?  --.
//	       ErrMediaType            ErrTooLarge           ErrMalformed          |-->  FieldsError: all fields that do not fit
//	path, query, header  ------------------------------------------------------'
//
// JSON is read more strictly than encoding/json reads it. Duplicate names, invalid UTF-8, trailing data and deep nesting are refused,
// because programs disagree about what such a document means. The generated code reads a body a second time, into its own type, and
// finds nothing there that has not been validated.
package contract
