package contract

import (
	"maps"
	"slices"
	"strings"
)

// FieldsError is a request with fields that do not fit the contract. It maps each of them to what the field must be, for
// people. A field is a parameter or a member of the body; "body" is the body as a whole, and "query" a query that cannot
// be decoded.
type FieldsError map[string]string

// Error names the fields in the order of the alphabet.
func (e FieldsError) Error() string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(e)) {
		texts = append(texts, name+" "+e[name])
	}
	return strings.Join(texts, "; ")
}

// add makes the map for the first field: most requests have none.
func (e *FieldsError) add(name, message string) {
	if *e == nil {
		*e = make(FieldsError)
	}
	(*e)[name] = message
}
