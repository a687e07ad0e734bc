package contract

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"

	"worldevents/gen"
)

// field is what the contract says of a parameter, or of a member of a body. One without message may be anything.
type field struct {
	name     string
	required bool
	message  string // x-message, which says what the value must be

	isInteger bool // else a string
	min, max  int64

	minLength, maxLength int            // of a string, in characters
	pattern              *regexp.Regexp // nil for none
	isDateTime           bool
	excluded             []string // x-excluded: what the description alone says, where a pattern would be another promise to generated clients
}

// newField returns an error for a schema with rules that fits would not enforce.
func newField(name string, required bool, schema *openapi3.Schema) (field, error) {
	f := field{name: name, required: required, message: schemaMessage(schema), min: math.MinInt64, max: math.MaxInt64, maxLength: math.MaxInt}
	rules := rulesOf(schema)
	if f.message == "" && !isEmpty(rules) {
		return f, fmt.Errorf("%s: want x-message", name)
	}
	switch {
	case schema.Type.Is(openapi3.TypeInteger):
		f.isInteger = true
		if schema.Min != nil {
			f.min = int64(math.Ceil(*schema.Min))
		}
		if schema.Max != nil {
			f.max = int64(math.Floor(*schema.Max))
		}
		rules.Min, rules.Max = nil, nil
		if rules.Format == "int32" { // for generated code
			f.min, f.max = max(f.min, math.MinInt32), min(f.max, math.MaxInt32)
			rules.Format = ""
		}
	case schema.Type.Is(openapi3.TypeString):
		f.minLength = int(schema.MinLength)
		if schema.MaxLength != nil {
			f.maxLength = int(*schema.MaxLength)
		}
		if schema.Pattern != "" {
			var err error
			if f.pattern, err = regexp.Compile(goPattern(schema.Pattern)); err != nil {
				return f, fmt.Errorf("%s: %w", name, err)
			}
		}
		if excluded, ok := rules.Extensions[xExcluded].([]any); ok {
			for _, text := range excluded {
				f.excluded = append(f.excluded, fmt.Sprint(text))
			}
			rules.Extensions = nil
		}
		rules.MinLength, rules.MaxLength, rules.Pattern = 0, nil, ""
		if rules.Format == "date-time" {
			f.isDateTime = true
			rules.Format = ""
		}
	default:
		return f, fmt.Errorf("%s: want a string or an integer", name)
	}
	if !isEmpty(rules) {
		return f, fmt.Errorf("%s: has rules that would not be enforced", name)
	}
	return f, nil
}

// goPattern returns a pattern as Go reads it, where \s is ASCII. In ECMA-262, the dialect of the contract's patterns, it is
// the white space of Unicode, and U+FEFF, which is none here: a byte order mark has always been a name.
func goPattern(pattern string) string { return strings.ReplaceAll(pattern, `\s`, `\t-\r\pZ`) }

// fits reports whether a value fits that is spelled as text.
func (f *field) fits(text string) bool {
	if f.isInteger {
		n, err := strconv.ParseInt(text, 10, 64)
		return err == nil && f.min <= n && n <= f.max
	}
	if n := utf8.RuneCountInString(text); n < f.minLength || n > f.maxLength || !utf8.ValidString(text) {
		return false
	}
	if f.isDateTime {
		if _, err := gen.ParseDateTime(text); err != nil {
			return false
		}
	}
	return (f.pattern == nil || f.pattern.MatchString(text)) && !slices.Contains(f.excluded, text)
}

// object is what the contract says of a body: it is a JSON object. Members without a name here may be anything.
type object struct {
	message string // x-message
	members []field
}

// newObject returns an error for a schema with rules that are not those of an object with strings.
func newObject(schema *openapi3.Schema) (*object, error) {
	o := &object{message: schemaMessage(schema)}
	rules := rulesOf(schema)
	rules.Properties, rules.Required = nil, nil
	if !schema.Type.Is(openapi3.TypeObject) || o.message == "" || !isEmpty(rules) {
		return nil, errors.New("request body: want an object with properties alone, and x-message")
	}
	for name, member := range schema.Properties {
		if !member.Value.Type.Is(openapi3.TypeString) || schemaMessage(member.Value) == "" {
			return nil, fmt.Errorf("request body: %s: want a string, and x-message", name)
		}
		f, err := newField(name, slices.Contains(schema.Required, name), member.Value)
		if err != nil {
			return nil, fmt.Errorf("request body: %w", err)
		}
		o.members = append(o.members, f)
	}
	for _, name := range schema.Required {
		if schema.Properties[name] == nil {
			return nil, fmt.Errorf("request body: %s: is required, and no property", name)
		}
	}
	return o, nil
}

// xExcluded is a rule of our own.
const xExcluded = "x-excluded"

// rulesOf returns what a schema demands of values of its type.
func rulesOf(schema *openapi3.Schema) openapi3.Schema {
	rules := *schema
	rules.Type = nil
	rules.Title, rules.Description, rules.Default, rules.Example, rules.Examples = "", "", nil, nil, nil
	rules.ExternalDocs, rules.Deprecated, rules.Extensions, rules.Origin = nil, false, nil, nil
	if excluded, ok := schema.Extensions[xExcluded]; ok {
		rules.Extensions = map[string]any{xExcluded: excluded}
	}
	return rules
}

func isEmpty(rules openapi3.Schema) bool { return reflect.DeepEqual(rules, openapi3.Schema{}) }

// schemaMessage returns the contract's own words for a value that does not fit the schema, or "".
func schemaMessage(schema *openapi3.Schema) string {
	message, _ := schema.Extensions["x-message"].(string)
	return message
}
