package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"worldevents/gen"
)

// kin is what kin-openapi says of the same contract: its own reading of schemas.
type kin struct {
	body *openapi3.Schema
	list openapi3.Parameters
}

func newDocument(t *testing.T) *openapi3.T {
	doc, err := openapi3.NewLoader().LoadFromFile("../../../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func newKin(t *testing.T) (k kin) {
	world := newDocument(t).Paths.Value("/api/event/{id}")
	k.body = world.Post.RequestBody.Value.Content["application/json"].Schema.Value
	for _, member := range k.body.Properties {
		member.Value.Pattern = goPattern(member.Value.Pattern)
	}
	k.list = world.Get.Parameters
	return k
}

// The operations of the contract are those that kin-openapi reads from it: their names, security, parameters, bodies and 413.
func TestOperationsAreThoseOfKin(t *testing.T) {
	doc := newDocument(t)
	var want, got []string
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			places := map[string][]string{}
			for _, ref := range op.Parameters {
				places[ref.Value.In] = append(places[ref.Value.In], fmt.Sprint(ref.Value.Name, ref.Value.Required))
			}
			security := doc.Security
			if op.Security != nil {
				security = *op.Security
			}
			secured := len(security) > 0
			for _, alternative := range security {
				secured = secured && len(alternative) > 0
			}
			var members []string
			if op.RequestBody != nil {
				schema := op.RequestBody.Value.Content["application/json"].Schema.Value
				for name := range schema.Properties {
					members = append(members, fmt.Sprint(name, slices.Contains(schema.Required, name)))
				}
			}
			slices.Sort(members)
			want = append(want, fmt.Sprint(op.OperationID, method, path, secured, places["path"], places["query"], places["header"], members, op.Responses.Status(413) != nil))
		}
	}
	all, err := Load(gen.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	names := func(fields []field) (all []string) {
		for _, f := range fields {
			all = append(all, fmt.Sprint(f.name, f.required))
		}
		return all
	}
	for _, op := range all {
		var members []string
		if op.schema.body != nil {
			members = names(op.schema.body.members)
		}
		slices.Sort(members)
		got = append(got, fmt.Sprint(op.ID, op.Method, op.Path, op.Secured, names(op.schema.path), names(op.schema.query), names(op.schema.header), members, op.schema.refusesBodies))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}

// misfits are the fields of value that do not fit; name is the field that value as a whole is.
func misfits(schema *openapi3.Schema, name string, value any) map[string]bool {
	all := make(map[string]bool)
	var add func(err error)
	add = func(err error) {
		var several openapi3.MultiError
		var one *openapi3.SchemaError
		switch {
		case errors.As(err, &several):
			for _, err := range several {
				add(err)
			}
		case errors.As(err, &one) && len(one.JSONPointer()) > 0:
			all[one.JSONPointer()[0]] = true
		default:
			all[name] = true
		}
	}
	if err := schema.VisitJSON(value, openapi3.MultiErrors(), openapi3.WithStringFormatValidators(map[string]openapi3.StringFormatValidator{
		"date-time": openapi3.NewCallbackValidator(func(s string) error { _, err := gen.ParseDateTime(s); return err }),
	})); err != nil {
		add(err)
	}
	return all
}

func fieldsOf(t *testing.T, err error) map[string]bool {
	var fields FieldsError
	if err != nil && !errors.As(err, &fields) {
		t.Fatal(err)
	}
	all := make(map[string]bool)
	for name := range fields {
		all[name] = true
	}
	return all
}

// randomText is mostly near what some rule allows or refuses.
func randomText(random *rand.Rand) string {
	seeds := []string{"", "a", "\u00a0", "\ufeff", "\x00", "\x7f", "\u0085", "\t\r\n", " ", "😀", "é", "2030-01-02T03:04:05.000Z", "2030-01-02T03:04:05+14:01", "2030-02-30T00:00:00Z", ".", "..", `"\`}
	text := seeds[random.IntN(len(seeds))]
	switch random.IntN(6) {
	case 0:
		text += seeds[random.IntN(len(seeds))]
	case 1:
		text = strings.Repeat(text, 1+random.IntN(10))
	case 2:
		length := []int{127, 128, 129, 199, 200, 201, 4999, 5000, 5001}[random.IntN(9)]
		text = strings.Repeat([]string{"x", "😀", " "}[random.IntN(3)], length)
	}
	return text
}

// randomValue is any JSON value, and mostly a string.
func randomValue(random *rand.Rand) any {
	switch random.IntN(12) {
	case 0:
		return nil
	case 1:
		return random.IntN(2) == 0
	case 2:
		return random.NormFloat64()
	case 3:
		return []any{randomValue(random)}
	case 4:
		return map[string]any{"name": randomValue(random)}
	}
	return randomText(random)
}

// Bodies and parameters fit here when they fit by kin-openapi's reading of the same schemas.
func TestSchemasAreReadAsByKin(t *testing.T) {
	k := newKin(t)
	create, list := operation(t, "createEvent"), operation(t, "listEvents")
	random := rand.New(rand.NewPCG(1, 2))
	fitting := 0
	for range 6_000 {
		value := randomValue(random)
		if random.IntN(20) > 0 {
			object := make(map[string]any)
			for _, name := range []string{"name", "description", "scheduledAt", "Name", "x"} {
				if random.IntN(6) > 0 {
					object[name] = randomValue(random)
				}
			}
			if random.IntN(2) > 0 { // or nearly none would fit
				object["name"], object["scheduledAt"] = "a", "2030-01-02T03:04:05Z"
			}
			value = object
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		got := fieldsOf(t, create.Validate(newRequest(create, "", jsonType, string(text)), withID("w")))
		want := misfits(k.body, "body", value)
		if !maps.Equal(got, want) {
			t.Fatalf("%s: %v, and kin says %v", text, slices.Collect(maps.Keys(got)), slices.Collect(maps.Keys(want)))
		}
		if len(got) == 0 {
			fitting++
		}
	}
	for range 1_000 {
		for _, ref := range k.list {
			p := ref.Value
			schema := p.Schema.Value
			if p.In != openapi3.ParameterInQuery || schema.Type.Is(openapi3.TypeInteger) {
				continue
			}
			text := randomText(random)
			query := p.Name + "=" + url.QueryEscape(text)
			got := fieldsOf(t, list.Validate(newRequest(list, query, "", ""), withID("w")))
			if want := misfits(schema, p.Name, text); !maps.Equal(got, want) {
				t.Fatalf("%s: %v, and kin says %v", query, got, want)
			}
		}
	}
	if fitting < 600 {
		t.Errorf("only %d bodies fit", fitting)
	}
}
