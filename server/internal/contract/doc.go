// Package contract checks requests against openapi.yaml, so that each rule is written once and handlers meet only valid requests.
//
// kin-openapi's Schema enforces the rules. The messages are the contract's own, in its extension x-message. A parameter is a string or an
// integer, and a body an object of strings, numbers and booleans. A parameter's schema without x-message accepts any text. A test refuses
// other contracts, and formats that nobody would check.
//
// Load makes operations of the contract at the start. Validate checks path, query and body for all faults at once:
//
//	body:  declared as JSON?  -->  at most 64 KiB?  -->  one JSON document?  --.
//	       ErrMediaType            ErrTooLarge           ErrMalformed          |-->  FieldsError: all fields that do not fit
//	path, query, header  ------------------------------------------------------'
//
// JSON is read more strictly than by encoding/json: duplicate names, invalid UTF-8, trailing data and deep nesting are refused, since
// programs disagree about their meaning. The generated code then reads the validated body again, into its own type.
package contract
