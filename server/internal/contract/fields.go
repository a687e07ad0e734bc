package contract

import (
	"maps"
	"slices"
	"strings"
)

// FieldsError is a request with fields that do not fit the contract. It maps each of them to what is wrong with it. A field is
// a parameter or a member of the body; "body" is the body as a whole, and "query" a query that cannot be decoded.
type FieldsError map[string]Fault

// Fault is what is wrong with a field.
type Fault struct {
	Code    string // for programs: the keyword of JSON Schema that refuses it, or a word of ApiError.fieldCodes
	Message string // what it must be, for people
}

// Error names the fields in the order of the alphabet.
func (e FieldsError) Error() string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(e)) {
		texts = append(texts, name+" "+e[name].Message)
	}
	return strings.Join(texts, "; ")
}

// Split returns the messages and the codes by field.
func (e FieldsError) Split() (messages, codes map[string]string) {
	messages, codes = make(map[string]string), make(map[string]string)
	for name, fault := range e {
		messages[name], codes[name] = fault.Message, fault.Code
	}
	return messages, codes
}

// add makes the map for the first field: most requests have none. The first fault of a field counts, but format gives way: a
// number beyond int32 is beyond its maximum.
func (e *FieldsError) add(name, code, message string) {
	if *e == nil {
		*e = make(FieldsError)
	}
	if known, ok := (*e)[name]; !ok || known.Code == "format" {
		(*e)[name] = Fault{code, message}
	}
}
