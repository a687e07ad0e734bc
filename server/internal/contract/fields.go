package contract

import (
	"maps"
	"slices"
	"strings"
)

// FieldsError maps each bad field of a request to its fault: a parameter, a member of the body, the whole "body", or a malformed "query".
type FieldsError map[string]Fault

type Fault struct {
	Code    string // a keyword of JSON Schema, or a word of ApiError.fieldCodes
	Message string // for people: the valid values
}

// Error lists the fields in alphabetical order.
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

// add adds a fault. The first fault of a field counts, but format gives way: a number beyond int32 is beyond its maximum.
func (e *FieldsError) add(name, code, message string) {
	if *e == nil {
		*e = make(FieldsError)
	}
	if known, ok := (*e)[name]; !ok || known.Code == "format" {
		(*e)[name] = Fault{code, message}
	}
}
