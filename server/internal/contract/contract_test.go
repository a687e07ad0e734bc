package contract

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
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

// Validate enforces every rule of openapi.yaml, and has words for each.
func TestRulesOfContract(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(gen.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	enforced := func(_ string, ref *openapi3.SchemaRef) error {
		s := ref.Value
		if s.Format != "" && s.Type.Permits(openapi3.TypeString) && openapi3.SchemaStringFormats[s.Format] == nil {
			return fmt.Errorf("nobody looks at format %s", s.Format)
		}
		if _, isList := s.Extensions[xExcluded].([]any); s.Extensions[xExcluded] != nil && (!isList || s.Not != nil) {
			return fmt.Errorf("%s is no list, or replaces what is in not", xExcluded)
		}
		return nil
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			want := func(ok bool, what string) {
				if !ok {
					t.Errorf("%s %s: want %s", method, path, what)
				}
			}
			err := op.Validate(t.Context(), openapi3.EnableSchemaFormatValidation(), openapi3.DisableExamplesValidation())
			want(err == nil, fmt.Sprintf("no %v", err))
			want(len(item.Parameters) == 0, "parameters in each operation")
			for _, ref := range op.Parameters {
				p, rules := ref.Value, *ref.Value.Schema.Value
				err := p.Schema.WalkSubtree(enforced)
				want(err == nil, fmt.Sprint(p.Name, ": ", err))
				isSimple := rules.Type.Is(openapi3.TypeString) || rules.Type.Is(openapi3.TypeInteger)
				want(isSimple && p.In != openapi3.ParameterInCookie, p.Name+" to be a text or an integer, and no cookie")
				rules.Type = nil
				want(messageOf(&rules) != "" || rules.IsEmpty() && rules.Extensions[xExcluded] == nil, p.Name+" with x-message")
			}
			if op.RequestBody == nil {
				continue
			}
			media := op.RequestBody.Value.Content
			want(op.RequestBody.Value.Required && len(media) == 1, "a body that is required, and JSON alone")
			s := media["application/json"].Schema
			err = s.WalkSubtree(enforced)
			want(err == nil, fmt.Sprint("body: ", err))
			want(s.Value.Type.Is(openapi3.TypeObject) && messageOf(s.Value) != "", "an object as body, with x-message")
			want(s.Value.AdditionalProperties.Schema == nil, "a body without a schema of other members")
			for name, ref := range s.Value.Properties {
				isNested := ref.Value.Type.Permits(openapi3.TypeArray) || ref.Value.Type.Permits(openapi3.TypeObject)
				want(!isNested && messageOf(ref.Value) != "", name+" with x-message, and no array or object")
			}
		}
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
