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
