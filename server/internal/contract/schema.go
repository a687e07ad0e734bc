package contract

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

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
func newField(name string, required bool, schema node) (field, error) {
	f := field{name: name, required: required, message: messageOf(schema), min: math.MinInt64, max: math.MaxInt64, maxLength: math.MaxInt}
	rules := rulesOf(schema)
	kind, _ := take[string](rules, "type")
	if f.message == "" && len(rules) > 0 {
		return f, fmt.Errorf("%s: want x-message", name)
	}
	switch kind {
	case "integer":
		f.isInteger = true
		if least, ok := take[float64](rules, "minimum"); ok {
			f.min = int64(math.Ceil(least))
		}
		if most, ok := take[float64](rules, "maximum"); ok {
			f.max = int64(math.Floor(most))
		}
		if rules["format"] == "int32" { // for generated code
			f.min, f.max = max(f.min, math.MinInt32), min(f.max, math.MaxInt32)
			delete(rules, "format")
		}
	case "string":
		if least, ok := take[float64](rules, "minLength"); ok {
			f.minLength = int(least)
		}
		if most, ok := take[float64](rules, "maxLength"); ok {
			f.maxLength = int(most)
		}
		if pattern, ok := take[string](rules, "pattern"); ok {
			var err error
			if f.pattern, err = regexp.Compile(goPattern(pattern)); err != nil {
				return f, fmt.Errorf("%s: %w", name, err)
			}
		}
		if excluded, ok := take[[]any](rules, xExcluded); ok {
			for _, text := range excluded {
				f.excluded = append(f.excluded, fmt.Sprint(text))
			}
		}
		if rules["format"] == "date-time" {
			f.isDateTime = true
			delete(rules, "format")
		}
	default:
		return f, fmt.Errorf("%s: want a string or an integer", name)
	}
	return f, unenforced(name, rules)
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
func newObject(d document, schema node) (*object, error) {
	o := &object{message: messageOf(schema)}
	rules := rulesOf(schema)
	kind, _ := take[string](rules, "type")
	properties, _ := take[node](rules, "properties")
	required, _ := take[[]any](rules, "required")
	if kind != "object" || o.message == "" {
		return nil, errors.New("want an object, and x-message")
	}
	if err := unenforced("an object", rules); err != nil {
		return nil, err
	}
	for name, value := range properties {
		member, err := d.at(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if member["type"] != "string" || messageOf(member) == "" {
			return nil, fmt.Errorf("%s: want a string, and x-message", name)
		}
		f, err := newField(name, slices.Contains(required, any(name)), member)
		if err != nil {
			return nil, err
		}
		o.members = append(o.members, f)
	}
	for _, name := range required {
		if name, _ := name.(string); properties[name] == nil {
			return nil, fmt.Errorf("%s: is required, and no property", name)
		}
	}
	return o, nil
}

// xExcluded is a rule of our own.
const xExcluded = "x-excluded"

// annotations are keywords that demand nothing of a value.
var annotations = []string{"title", "description", "default", "example", "examples", "externalDocs", "deprecated"}

// rulesOf returns what a schema demands of values, to take one keyword after the other from.
func rulesOf(schema node) node {
	rules := maps.Clone(schema)
	maps.DeleteFunc(rules, func(keyword string, _ any) bool {
		return slices.Contains(annotations, keyword) || strings.HasPrefix(keyword, "x-") && keyword != xExcluded
	})
	return rules
}

// take takes a keyword from rules. One whose value has another type stays there.
func take[T any](rules node, keyword string) (value T, ok bool) {
	if value, ok = rules[keyword].(T); ok {
		delete(rules, keyword)
	}
	return value, ok
}

// unenforced returns an error when rules are left that nobody took.
func unenforced(name string, rules node) error {
	if len(rules) == 0 {
		return nil
	}
	return fmt.Errorf("%s: would not be held to %s", name, strings.Join(slices.Sorted(maps.Keys(rules)), ", "))
}

// messageOf returns the contract's own words for a value that does not fit the schema, or "".
func messageOf(schema node) string {
	message, _ := schema["x-message"].(string)
	return message
}
