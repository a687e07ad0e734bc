package contract

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/goccy/go-yaml"

	"worldevents/gen"
)

const (
	jsonType = "application/json"
	when     = "2030-06-01T10:00:00+02:00"
	event    = `{"name":"Boat trip","description":"Bring a coat.","scheduledAt":"` + when + `"}`
)

// operation returns an operation of openapi.yaml.
func operation(tb testing.TB, id string) *Operation {
	tb.Helper()
	operations, err := Load(gen.OpenAPI)
	if err != nil {
		tb.Fatal(err)
	}
	for _, op := range operations {
		if op.ID == id {
			return op
		}
	}
	tb.Fatalf("no operation %s", id)
	return nil
}

// newRequest returns a request of op. Its path does not matter: Validate is given the parameters.
func newRequest(op *Operation, query, contentType, body string) *http.Request {
	r := httptest.NewRequest(op.Method, "/", strings.NewReader(body))
	r.URL.RawQuery = query
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	return r
}

// load is Load of a contract in YAML, which is easier to read.
func load(tb testing.TB, text string) ([]*Operation, error) {
	tb.Helper()
	inJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return Load(inJSON)
}

// withID gives Validate a path parameter.
func withID(value string) func(string) string { return func(string) string { return value } }

// padded returns a valid body of a length.
func padded(size int) string { return event + strings.Repeat(" ", size-len(event)) }

// with returns a valid body with another member.
func with(member string) string { return strings.TrimSuffix(event, "}") + "," + member + "}" }

// nested returns a valid body that is nested this deep: the body itself is one level.
func nested(depth int) string {
	return with(`"x":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1))
}

func TestLoad(t *testing.T) {
	all, err := Load(gen.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	methods, secured := make(map[string]string), make(map[string]bool)
	for _, op := range all {
		methods[op.ID], secured[op.ID] = op.Method, op.Secured
	}
	if want := map[string]string{
		"getSession": "GET", "refreshSession": "GET", "createEvent": "POST", "listEvents": "GET", "joinEvent": "POST", "leaveEvent": "DELETE",
	}; !maps.Equal(methods, want) {
		t.Errorf("methods %v", methods)
	}
	if want := map[string]bool{
		"getSession": false, "refreshSession": false, "createEvent": true, "listEvents": true, "joinEvent": true, "leaveEvent": true,
	}; !maps.Equal(secured, want) {
		t.Errorf("secured %v", secured)
	}
}

const head, responses = "openapi: 3.0.3\ninfo: {title: t, version: '1'}\n", "responses: {'200': {description: d}}"

// withQuery returns a contract whose operation has a parameter q.
func withQuery(schema string) string {
	return head + "paths: {/x: {get: {parameters: [{name: q, in: query, schema: {" + schema + "}}], " + responses + "}}}"
}

// withBody returns a contract whose operation has a body.
func withBody(schema string) string {
	return head + "paths: {/x: {post: {requestBody: {required: true, content: {application/json: {schema: {" + schema + "}}}}, " + responses + "}}}"
}

// A contract with rules that Validate would not enforce is no contract to start with.
func TestLoadRefuses(t *testing.T) {
	for _, good := range []string{
		withQuery("type: string"),
		withQuery("type: integer, minimum: 1, maximum: 7, x-message: m"),
		withBody("type: object, x-message: m, required: [a], properties: {a: {type: string, maxLength: 7, x-message: m}}"),
	} {
		if _, err := load(t, good); err != nil {
			t.Error(err)
		}
	}
	for _, test := range []struct{ name, text string }{
		{"no object", "[]"},
		{"nothing", "{}"},
		{"a dangling reference", head + "paths: {/x: {get: {parameters: [{$ref: '#/components/parameters/X'}], " + responses + "}}}"},
		{"a reference to another file", head + "paths: {/x: {get: {parameters: [{$ref: 'x.yaml#/X'}], " + responses + "}}}"},
		{"a reference to a reference", head + "paths: {/x: {get: {parameters: [{$ref: '#/components/parameters/X'}], " + responses + "}}}\ncomponents: {parameters: {X: {$ref: '#/components/parameters/X'}}}"},
		{"an array in a header", head + "paths: {/x: {get: {parameters: [{name: h, in: header, schema: {type: array, items: {type: string}}}], " + responses + "}}}"},
		{"a cookie", head + "paths: {/x: {get: {parameters: [{name: c, in: cookie, schema: {type: string}}], " + responses + "}}}"},
		{"an array", withQuery("type: array, items: {type: string}")},
		{"a parameter without type", withQuery("")},
		{"a parameter without schema", head + "paths: {/x: {get: {parameters: [{name: q, in: query, content: {text/plain: {}}}], " + responses + "}}}"},
		{"a keyword that nobody knows", withQuery("type: string, maxLenght: 7, x-message: m")},
		{"an enumeration without words", withQuery("type: string, enum: [a]")},
		{"a rule without words", withQuery("type: string, minLength: 1")},
		{"a length that is no number", withQuery("type: string, maxLength: '7', x-message: m")},
		{"another format", withQuery("type: string, format: uuid, x-message: m")},
		{"a pattern that Go does not read", withQuery("type: string, pattern: '(?=a)', x-message: m")},
		{"excluded, and no list", withQuery("type: string, x-excluded: a, x-message: m")},
		{"excluded beside a rule of its kind", withQuery("type: string, x-excluded: [a], not: {maxLength: 7}, x-message: m")},
		{"excluded without words", withQuery("type: string, x-excluded: [a]")},
		{"parameters of a path", head + "paths: {/x: {parameters: [{name: q, in: query, schema: {type: string}}], get: {" + responses + "}}}"},
		{"an optional body", head + "paths: {/x: {post: {requestBody: {content: {application/json: {schema: {type: object}}}}, " + responses + "}}}"},
		{"a form", head + "paths: {/x: {post: {requestBody: {required: true, content: {multipart/form-data: {schema: {type: object}}}}, " + responses + "}}}"},
		{"a body that is an array", withBody("type: array, x-message: m, items: {type: string}")},
		{"a body without words", withBody("type: object, properties: {a: {type: string, x-message: m}}")},
		{"a body with an array in it", withBody("type: object, x-message: m, properties: {a: {type: array, items: {type: string}, x-message: m}}")},
		{"a body with an object in it", withBody("type: object, x-message: m, properties: {a: {type: object, x-message: m}}")},
		{"a body with a member of any type", withBody("type: object, x-message: m, properties: {a: {x-message: m}}")},
		{"a body with a schema for other members", withBody("type: object, x-message: m, additionalProperties: {type: string}")},
		{"a body with a member without words", withBody("type: object, x-message: m, properties: {a: {type: string}}")},
		{"a body without schema", head + "paths: {/x: {post: {requestBody: {required: true, content: {application/json: {}}}, " + responses + "}}}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if all, err := load(t, test.text); err == nil {
				t.Errorf("loaded %v", all)
			}
		})
	}
}

// Whatever rule a schema has is enforced.
func TestRules(t *testing.T) {
	for _, test := range []struct{ rules, fitting, unfit string }{
		{"type: string, enum: [a, b]", "b", "c"},
		{"type: string, x-excluded: [a, b]", "c", "b"},
		{"type: string, oneOf: [{maxLength: 1}, {pattern: '^x'}]", "xx", "x"},
		{`type: string, pattern: '^[^\s]*$'`, "\ufeff", "\u2003"},
		{"type: string, format: date", "2030-02-28", "2030-02-30"},
		{"type: integer, minimum: 1, exclusiveMinimum: true", "2", "1"},
		{"type: integer, multipleOf: 3", "-3", "4"},
		{"type: integer, x-excluded: [1]", "2", "1"},
		{"type: integer, format: int32", "2147483647", "2147483648"},
	} {
		all, err := load(t, withQuery("x-message: m, "+test.rules))
		if err != nil {
			t.Fatalf("%s: %v", test.rules, err)
		}
		for text, fits := range map[string]bool{test.fitting: true, test.unfit: false} {
			if err := all[0].Validate(newRequest(all[0], "q="+url.QueryEscape(text), "", ""), withID("")); (err == nil) != fits {
				t.Errorf("%s: %q: %v", test.rules, text, err)
			}
		}
	}
	for _, test := range []struct {
		rules, body string
		want        FieldsError
	}{
		{"properties: {a: {type: string, nullable: true, x-message: m}}", `{"a":null}`, nil},
		{"properties: {a: {type: number, maximum: 7, x-message: m}}", `{"a":7}`, nil},
		{"properties: {a: {type: number, maximum: 7, x-message: m}}", `{"a":7.5}`, FieldsError{"a": {"maximum", "m"}}},
		{"properties: {a: {type: boolean, x-message: m}}", `{"a":true}`, nil},
		{"required: [a]", `{}`, FieldsError{"a": {"required", "is required"}}},
		{"additionalProperties: false", `{"a":1}`, FieldsError{"body": {"properties", "object"}}},
		{"maxProperties: 1", `{"a":[],"b":{}}`, FieldsError{"body": {"maxProperties", "object"}}},
	} {
		all, err := load(t, withBody("type: object, x-message: object, "+test.rules))
		if err != nil {
			t.Fatalf("%s: %v", test.rules, err)
		}
		var got FieldsError
		if err := all[0].Validate(newRequest(all[0], "", jsonType, test.body), withID("")); err != nil && !errors.As(err, &got) || !maps.Equal(got, test.want) {
			t.Errorf("%s: %s: %v", test.rules, test.body, err)
		}
	}
}

func TestLoadSecurity(t *testing.T) {
	for _, test := range []struct {
		name, global, own string
		want              bool
	}{
		{"none", "", "", false},
		{"its own", "", "security: [{a: []}], ", true},
		{"the contract's", "security: [{a: []}]\n", "", true},
		{"none of the contract's", "security: [{a: []}]\n", "security: [], ", false},
		{"an alternative without", "", "security: [{a: []}, {}], ", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			all, err := load(t, "openapi: 3.0.3\ninfo: {title: t, version: '1'}\n"+test.global+
				"paths: {/x: {get: {"+test.own+"responses: {'200': {description: d}}}}}")
			if err != nil || len(all) != 1 || all[0].Secured != test.want {
				t.Errorf("%+v, %v", all, err)
			}
		})
	}
}

func TestMediaTypes(t *testing.T) {
	op := operation(t, "createEvent")
	for _, test := range []struct {
		value string
		want  error
	}{
		{"application/json", nil},
		{"APPLICATION/JSON", nil},
		{"application/json;charset=utf-8", nil},
		{`application/json; charset="UTF-8"`, nil},
		{"application/json; charset=utf8", nil},
		{"application/json ;Charset=Utf-8", nil},
		{"application/json; v=1", nil},
		{"", ErrMediaType},
		{";", ErrMediaType},
		{"json", ErrMediaType},
		{"text/plain", ErrMediaType},
		{"text/json", ErrMediaType},
		{"application/*", ErrMediaType},
		{"application/ld+json", ErrMediaType},
		{"application/x-www-form-urlencoded", ErrMediaType},
		{"application/json, text/plain", ErrMediaType},
		{"application/json; charset=utf-16", ErrMediaType},
		{`application/json; charset=""`, ErrMediaType},
		{"application/json; charset=utf-8; charset=utf-16", ErrMediaType},
	} {
		t.Run(test.value, func(t *testing.T) {
			if err := op.Validate(newRequest(op, "", test.value, event), withID("w")); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
	for name, change := range map[string]func(http.Header){
		"twice":      func(h http.Header) { h.Add("Content-Type", jsonType) },
		"compressed": func(h http.Header) { h.Set("Content-Encoding", "gzip") },
		"identity":   func(h http.Header) { h.Set("Content-Encoding", "identity") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRequest(op, "", jsonType, event)
			change(r.Header)
			if err := op.Validate(r, withID("w")); !errors.Is(err, ErrMediaType) {
				t.Error(err)
			}
		})
	}
}

func TestBodies(t *testing.T) {
	op := operation(t, "createEvent")
	for _, test := range []struct {
		name, body string
		want       error
	}{
		{"a body", event, nil},
		{"white space around", " \t\r\n" + event + "\n", nil},
		{"64 KiB", padded(64 << 10), nil},
		{"64 KiB and a byte", padded(64<<10 + 1), ErrTooLarge},
		{"64 KiB and a byte of nonsense", strings.Repeat("{", 64<<10+1), ErrTooLarge},
		{"1 MiB", padded(1 << 20), ErrTooLarge},
		{"nested 32 deep", nested(32), nil},
		{"nested 33 deep", nested(33), ErrMalformed},
		{"nested 10000 deep", nested(10000), ErrMalformed},
		{"nested 33 deep in objects", with(`"x":` + strings.Repeat(`{"a":`, 32) + "1" + strings.Repeat("}", 32)), ErrMalformed},
		{"no bytes", "", ErrMalformed},
		{"white space alone", "  ", ErrMalformed},
		{"cut short", strings.TrimSuffix(event, "}"), ErrMalformed},
		{"two documents", event + event, ErrMalformed},
		{"something behind", event + "x", ErrMalformed},
		{"a zero byte behind", event + "\x00", ErrMalformed},
		{"a byte order mark", "\ufeff" + event, ErrMalformed},
		{"a duplicate name", with(`"name":"again"`), ErrMalformed},
		{"a duplicate by escapes", with(`"n\u0061me":"again"`), ErrMalformed},
		{"a duplicate, unknown", with(`"x":1,"x":1`), ErrMalformed},
		{"a duplicate, deep", with(`"x":[{"y":1,"y":1}]`), ErrMalformed},
		{"the same name at two depths", with(`"x":{"name":1}`), nil},
		{"a name in another case", with(`"NAME":7`), nil},
		{"invalid UTF-8", with("\"x\":\"\xff\""), ErrMalformed},
		{"invalid UTF-8 in a name", with("\"\xff\":1"), ErrMalformed},
		{"an encoded surrogate", with("\"x\":\"\xed\xa0\x80\""), ErrMalformed},
		{"a lone surrogate", with(`"x":"\ud83d"`), nil},
		{"a lone surrogate in a name", with(`"\ud83d":1`), nil},
		{"names that only differ in lone surrogates", with(`"\ud83d":1,"\ud83e":2`), ErrMalformed},
		{"a string that does not end", with(`"x":"`), ErrMalformed},
		{"half an escape", with(`"x":"\ud8"`), ErrMalformed},
		{"a huge number", with(`"x":-1E+99999`), nil},
		{"NaN", with(`"x":NaN`), ErrMalformed},
		{"a comma too many", with(""), ErrMalformed},
		{"a comment", "/**/" + event, ErrMalformed},
		{"a form", "name=x&description=", ErrMalformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, announced := range []bool{true, false} {
				r := newRequest(op, "", jsonType, test.body)
				if !announced {
					r.ContentLength = -1
				}
				err := op.Validate(r, withID("w"))
				if !errors.Is(err, test.want) {
					t.Fatalf("length announced %v: got %v, want %v", announced, err, test.want)
				}
				if again, _ := io.ReadAll(r.Body); err == nil && string(again) != test.body {
					t.Errorf("length announced %v: then reads %.50q", announced, again)
				}
			}
		})
	}
}

// failingBody fails the test when it is read.
type failingBody struct{ t *testing.T }

func (b failingBody) Read([]byte) (int, error) {
	b.t.Error("the body is read")
	return 0, io.ErrUnexpectedEOF
}

func (failingBody) Close() error { return nil }

// What is refused by its headers, or announces too much, is never read: net/http would say "100 Continue".
func TestUnreadBodies(t *testing.T) {
	for _, test := range []struct {
		name, operation, contentType string
		length                       int64
		want                         error
	}{
		{"another media type", "createEvent", "text/plain", 2, ErrMediaType},
		{"another media type, too large", "createEvent", "text/plain", 64<<10 + 1, ErrMediaType},
		{"too large", "createEvent", jsonType, 64<<10 + 1, ErrTooLarge},
		{"none wanted, too large", "joinEvent", jsonType, 64<<10 + 1, ErrTooLarge},
		{"none wanted, none sent", "joinEvent", jsonType, 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			op := operation(t, test.operation)
			r := newRequest(op, "", test.contentType, "")
			r.Body, r.ContentLength = failingBody{t}, test.length
			if err := op.Validate(r, withID("w")); !errors.Is(err, test.want) {
				t.Error(err)
			}
		})
	}
}

// A body that breaks off is malformed where one is wanted, and has not ended elsewhere. The auth endpoints name no error for it.
func TestBrokenBodies(t *testing.T) {
	for name, want := range map[string]error{"createEvent": ErrMalformed, "joinEvent": ErrTooLarge, "getSession": nil} {
		op := operation(t, name)
		r := newRequest(op, "", jsonType, "")
		r.Body, r.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader(event), brokenReader{})), 1000
		if err := op.Validate(r, withID("w")); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// The body of an operation that has none is read, at most 64 KiB of it, and means nothing. A longer one is refused, but not by the
// auth endpoints, whose errors are all named.
func TestUnwantedBodies(t *testing.T) {
	for _, operationID := range []string{"getSession", "refreshSession", "listEvents", "joinEvent", "leaveEvent"} {
		op := operation(t, operationID)
		for _, test := range []struct {
			name, body string
			announced  bool
			want       error
			left       int
		}{
			{"an object", "{}", true, nil, 0},
			{"no JSON", "{", false, nil, 0},
			{"64 KiB", strings.Repeat("x", 64<<10), true, nil, 0},
			{"64 KiB, chunked", strings.Repeat("x", 64<<10), false, nil, 0},
			{"too much, chunked", strings.Repeat("x", 64<<10+7), false, ErrTooLarge, 6},
			{"too much", strings.Repeat("x", 64<<10+7), true, ErrTooLarge, 64<<10 + 7},
		} {
			t.Run(operationID+"/"+test.name, func(t *testing.T) {
				for _, contentType := range []string{"", jsonType, "text/plain"} {
					r := newRequest(op, "", contentType, test.body)
					if !test.announced {
						r.ContentLength = -1
					}
					want := test.want
					if strings.HasSuffix(operationID, "Session") {
						want = nil
					}
					if err := op.Validate(r, withID("w")); err != want {
						t.Error(err)
					}
					if rest, _ := io.ReadAll(r.Body); len(rest) != test.left {
						t.Errorf("%d bytes left", len(rest))
					}
				}
			})
		}
	}
}

const (
	nameMessage        = "must be 1 to 200 characters, not only white space, without control characters"
	descriptionMessage = "must be 0 to 5000 characters, without control characters other than tab and line breaks"
	instantMessage     = "must be an RFC 3339 date-time with Z or an offset up to 14:00, in UTC within the years 1970 to 9999"
	worldMessage       = "must be 1 to 128 characters without control characters, in UTF-8, and not . or .."
)

// Every bad field is named at once.
func TestFields(t *testing.T) {
	create, list, join := operation(t, "createEvent"), operation(t, "listEvents"), operation(t, "joinEvent")
	for _, test := range []struct {
		name            string
		op              *Operation
		id, query, body string
		want            FieldsError
	}{
		{"a good body", create, "w", "", event, nil},
		{"nothing in it", create, "w", "", "{}", FieldsError{"name": {"required", "is required"}, "description": {"required", "is required"}, "scheduledAt": {"required", "is required"}}},
		{"all wrong", create, "", "", `{"name":" ","description":"\u0000","scheduledAt":"2030-02-30T00:00:00Z"}`,
			FieldsError{"id": {"minLength", worldMessage}, "name": {"pattern", nameMessage}, "description": {"pattern", descriptionMessage}, "scheduledAt": {"format", instantMessage}}},
		{"wrong types", create, "w", "", `{"name":null,"description":[],"scheduledAt":{"x":1}}`,
			FieldsError{"name": {"type", nameMessage}, "description": {"type", descriptionMessage}, "scheduledAt": {"type", instantMessage}}},
		{"a number beyond all", create, "w", "", `{"name":1e99999,"description":"","scheduledAt":"` + when + `"}`, FieldsError{"name": {"type", nameMessage}}},
		{"names in another case", create, "w", "", `{"Name":"n","description":"","scheduledAt":"` + when + `"}`, FieldsError{"name": {"required", "is required"}}},
		{"lone surrogates", create, "w", "", `{"name":"a\ud83d","description":"\ude00","scheduledAt":"\ud83d\ud83d"}`,
			FieldsError{"name": {"type", nameMessage}, "description": {"type", descriptionMessage}, "scheduledAt": {"type", instantMessage}}},
		{"a pair of surrogates, and what stands for what cannot be read", create, "w", "", `{"name":"\ud83d\ude00","description":"\ufffd","scheduledAt":"` + when + `"}`, nil},
		{"white space of all kinds", create, "w", "", "{\"name\":\"\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000\",\"description\":\"\",\"scheduledAt\":\"" + when + "\"}",
			FieldsError{"name": {"pattern", nameMessage}}},
		{"a leap second", create, "w", "", `{"name":"n","description":"","scheduledAt":"2016-12-31T23:59:60Z"}`, FieldsError{"scheduledAt": {"format", instantMessage}}},
		{"null", create, "w", "", "null", FieldsError{"body": {"type", "must be a JSON object"}}},
		{"an array", create, "w", "", "[" + event + "]", FieldsError{"body": {"type", "must be a JSON object"}}},
		{"a number, and a bad world", create, "%00", "", "7", FieldsError{"id": {"pattern", worldMessage}, "body": {"type", "must be a JSON object"}}},

		{"an escaped world", list, "a%2Fb%25", "", "", nil},
		{"a world of 128 characters", list, strings.Repeat("%F0%9F%98%80", 128), "", "", nil},
		{"a world of 129 characters", list, strings.Repeat("x", 129), "", "", FieldsError{"id": {"maxLength", worldMessage}}},
		{"a world that is not UTF-8", list, "%ff", "", "", FieldsError{"id": {"format", worldMessage}}},
		{"a world that is not decoded", list, "%zz", "", "", FieldsError{"id": {"format", worldMessage}}},
		{"an empty world", list, "", "", "", FieldsError{"id": {"minLength", worldMessage}}},
		{"too long, and of control characters", create, strings.Repeat("%00", 129), "", `{"name":"` + strings.Repeat(" ", 201) + `","description":"` + strings.Repeat(`\u0000`, 5001) + `","scheduledAt":""}`,
			FieldsError{"id": {"maxLength", worldMessage}, "name": {"maxLength", nameMessage}, "description": {"maxLength", descriptionMessage}, "scheduledAt": {"format", instantMessage}}},
		{"a world that is a step in a path", list, ".", "", "", FieldsError{"id": {"not", worldMessage}}},
		{"a world that is a step back", create, "%2e%2E", "", event, FieldsError{"id": {"not", worldMessage}}},
		{"a world of three dots", list, "...", "", "", nil},
		{"an opaque id of two dots", join, "..", "", "", nil},
		{"an opaque id may be anything", join, "%ff", "", "", nil},
		{"an opaque id that is not decoded", join, "%zz", "", "", nil},

		{"good parameters", list, "w", "from=2030-01-01T00:00:00Z&to=2030-01-01T00:00:00%2B14:00&limit=1000&cursor=x", "", nil},
		{"unknown parameters", list, "w", "a=1&a=2&From=x", "", nil},
		{"given twice", list, "w", "limit=1&from=2030-01-01T00:00:00Z&limit=1&from=", "",
			FieldsError{"limit": {"repeated", "must be given once"}, "from": {"repeated", "must be given once"}}},
		{"all bad", list, "%00", "from=x&to=2030-02-30T00:00:00Z&limit=1001&cursor=", "", FieldsError{
			"id": {"pattern", worldMessage}, "from": {"format", instantMessage}, "to": {"format", instantMessage}, "limit": {"maximum", "must be a whole number from 1 to 1000"},
			"cursor": {"minLength", "must be a cursor from the Link of this world's list"},
		}},
		{"an empty name", create, "w", "", `{"name":"","description":"","scheduledAt":"` + when + `"}`, FieldsError{"name": {"minLength", nameMessage}}},
		{"too small a number, and none", list, "w", "limit=0&wait=", "",
			FieldsError{"limit": {"minimum", "must be a whole number from 1 to 1000"}, "wait": {"type", "must be a whole number from 1 to 50"}}},
		{"beyond int32", list, "w", "limit=-9223372036854775809&wait=2147483648", "",
			FieldsError{"limit": {"minimum", "must be a whole number from 1 to 1000"}, "wait": {"maximum", "must be a whole number from 1 to 50"}}},
		{"no number", list, "w", "limit=1e2", "", FieldsError{"limit": {"type", "must be a whole number from 1 to 1000"}}},
		{"too large a number", list, "w", "limit=9223372036854775808", "", FieldsError{"limit": {"maximum", "must be a whole number from 1 to 1000"}}},
		{"not UTF-8", list, "w", "cursor=%ff", "", FieldsError{"cursor": {"format", "must be a cursor from the Link of this world's list"}}},
		{"not percent-encoded", list, "w", "limit=0&a=%zz", "", FieldsError{"query": {"format", "must be percent-encoded"}}},
		{"a semicolon", list, "w", "limit=1;from=x", "", FieldsError{"query": {"format", "must be percent-encoded"}}},
		{"a query that nobody asked for", join, "e", "a=%zz", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.op.Validate(newRequest(test.op, test.query, jsonType, test.body), withID(test.id))
			var got FieldsError
			if err != nil && !errors.As(err, &got) || !maps.Equal(got, test.want) {
				t.Errorf("\n got %v\nwant %v", err, test.want)
			}
		})
	}
}

// What cannot be decoded does not fit, even where nothing would.
func TestParameterThatIsNotDecoded(t *testing.T) {
	all, err := load(t, "openapi: 3.0.3\ninfo: {title: t, version: '1'}\n"+
		"paths: {'/x/{id}': {get: {parameters: [{name: id, in: path, required: true, schema: {type: string, maxLength: 7, x-message: m}}], "+
		"responses: {'200': {description: d}}}}}")
	if err != nil {
		t.Fatal(err)
	}
	for id, fits := range map[string]bool{"": true, "%20": true, "%zz": false} {
		if err := all[0].Validate(newRequest(all[0], "", "", ""), withID(id)); (err == nil) != fits {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// An error of the body as JSON comes before those of fields.
func TestOrderOfErrors(t *testing.T) {
	op := operation(t, "createEvent")
	for _, test := range []struct {
		contentType, body string
		want              error
	}{
		{"text/plain", padded(64<<10 + 1), ErrMediaType},
		{jsonType, strings.Repeat("{", 64<<10+1), ErrTooLarge},
		{jsonType, "{", ErrMalformed},
		{jsonType, "{}", FieldsError{}},
	} {
		err := op.Validate(newRequest(op, "", test.contentType, test.body), withID("%00"))
		if _, ok := test.want.(FieldsError); ok {
			var fields FieldsError
			if !errors.As(err, &fields) || len(fields) != 4 {
				t.Errorf("%.20q: %v", test.body, err)
			}
		} else if !errors.Is(err, test.want) {
			t.Errorf("%.20q: %v", test.body, err)
		}
	}
}

func TestFieldsErrorText(t *testing.T) {
	err := FieldsError{"name": {"required", "is required"}, "id": {"pattern", "must be x"}}
	if got := err.Error(); got != "id must be x; name is required" {
		t.Error(got)
	}
}

// Whatever bytes a body has, what is accepted decodes into the generated type, which has what was sent.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		event, "", "{}", "null", "[]", event + event, "\xff", nested(32), nested(33), with(`"name":"again"`), with(`"x":1e999`), with("\"x\":\"\xff\""),
		`{"name":"\ud83d\ude00","description":"a\tb\nc","scheduledAt":"9999-12-31T23:59:59.9999999999+14:00","x":[1e999,{"y":null}]}`,
		`{"NAME":"n","description":"","scheduledAt":"2030-02-30T25:61:61z"}`, `{"name":7,"description":[],"scheduledAt":{}}`,
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	op := operation(f, "createEvent")
	f.Fuzz(func(t *testing.T, body []byte, announced bool) {
		r := newRequest(op, "", jsonType, string(body))
		if !announced {
			r.ContentLength = -1
		}
		err := op.Validate(r, withID("w"))
		var fields FieldsError
		switch {
		case err == nil:
			var sent gen.NewEvent
			if err := json.UnmarshalRead(r.Body, &sent); err != nil {
				t.Fatalf("%q is accepted and does not decode: %v", body, err)
			}
			var raw map[string]any
			if err := json.Unmarshal(body, &raw); err != nil && !strings.Contains(err.Error(), "float64") {
				t.Fatalf("%q is accepted: %v", body, err)
			}
			if year := sent.ScheduledAt.Time().Year(); sent.Name == "" || year < 1970 || year > 9999 {
				t.Fatalf("%q is accepted as %+v", body, sent)
			}
		case errors.Is(err, ErrTooLarge):
			if len(body) <= 64<<10 {
				t.Fatalf("%d bytes are too large", len(body))
			}
		case errors.Is(err, ErrMalformed):
			if string(body) == event {
				t.Fatal(err)
			}
		case errors.As(err, &fields):
			for name, fault := range fields {
				if name == "" || fault.Code == "" || fault.Message == "" {
					t.Fatalf("%q: %q %q", body, name, fault)
				}
			}
		default:
			t.Fatal(err)
		}
	})
}

// Whatever a query is, what is accepted is what the generated binding can read.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"", "limit=1&from=2030-01-01T00:00:00Z&cursor=x", "limit=1&limit=2", "a=%zz", "limit=1;x", "to=2030-01-01T00:00:00%2B14:00", "limit=+7", "from=%ff", "&=&",
	} {
		f.Add(seed)
	}
	op := operation(f, "listEvents")
	f.Fuzz(func(t *testing.T, query string) {
		r := newRequest(op, query, "", "")
		if op.Validate(r, withID("w")) != nil {
			return
		}
		values := r.URL.Query()
		for name, accept := range map[string]func(string) error{
			"limit": func(s string) error { _, err := strconv.ParseInt(s, 10, 32); return err },
			"from":  func(s string) error { return new(gen.DateTime).Bind(s) },
			"to":    func(s string) error { return new(gen.DateTime).Bind(s) },
		} {
			if len(values[name]) > 1 {
				t.Fatalf("%q is accepted", query)
			}
			for _, value := range values[name] {
				if err := accept(value); err != nil {
					t.Fatalf("%q is accepted: %v", query, err)
				}
			}
		}
	})
}

// BenchmarkValidate validates a request that fits, as each request is.
func BenchmarkValidate(b *testing.B) {
	for _, test := range []struct{ operation, id, body string }{
		{"createEvent", "harbour", event},
		{"listEvents", "harbour", ""},
		{"joinEvent", "01900000-0000-7000-8000-000000000001", ""},
	} {
		b.Run(test.operation, func(b *testing.B) {
			op := operation(b, test.operation)
			r := newRequest(op, "", jsonType, test.body)
			param := withID(test.id)
			b.ReportAllocs()
			for b.Loop() {
				r.Body = http.NoBody
				if test.body != "" {
					r.Body = io.NopCloser(strings.NewReader(test.body))
				}
				if err := op.Validate(r, param); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
