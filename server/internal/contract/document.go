package contract

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// node is an object of the contract's JSON.
type node = map[string]any

// document is the contract as a whole, in which references are looked up.
type document node

// Load reads the contract as JSON and returns its operations, in no particular order. It returns an error when the text is no
// contract, and when it has rules that Validate would not enforce.
func Load(text []byte) ([]*Operation, error) {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	paths, _ := d["paths"].(node)
	if len(paths) == 0 {
		return nil, errors.New("want paths")
	}
	var all []*Operation
	for path, value := range paths {
		item, err := d.at(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if item["parameters"] != nil {
			return nil, fmt.Errorf("%s: want parameters in each operation", path)
		}
		for name, value := range item {
			method := strings.ToUpper(name)
			if !slices.Contains(methods, method) {
				continue // a summary, or an extension
			}
			op, err := d.newOperation(value)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			op.Method, op.Path = method, path
			all = append(all, op)
		}
	}
	return all, nil
}

// methods are those of a Path Item Object (OpenAPI 3.0.3, section 4.7.9).
var methods = []string{
	http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodOptions, http.MethodHead, http.MethodPatch, http.MethodTrace,
}

// at returns the object that a value is, or that it refers to (OpenAPI 3.0.3, section 4.7.23).
func (d document) at(value any) (node, error) {
	object, _ := value.(node)
	if ref, ok := object["$ref"].(string); ok {
		pointer, within := strings.CutPrefix(ref, "#")
		object = node(d)
		for name := range jsontext.Pointer(pointer).Tokens() {
			object, _ = object[name].(node)
		}
		if !within || object["$ref"] != nil {
			object = nil
		}
		if object == nil {
			return nil, fmt.Errorf("%s: want the name of an object of the contract", ref)
		}
	}
	if object == nil {
		return nil, errors.New("want an object")
	}
	return object, nil
}

func (d document) newOperation(value any) (*Operation, error) {
	from, err := d.at(value)
	if err != nil {
		return nil, err
	}
	op := new(Operation)
	op.ID, _ = from["operationId"].(string)
	security, own := from["security"]
	if !own {
		security = d["security"]
	}
	op.Secured = isSecured(security)
	parameters, _ := from["parameters"].([]any)
	for _, value := range parameters {
		if err := op.schema.addParameter(d, value); err != nil {
			return nil, err
		}
	}
	if value, ok := from["requestBody"]; ok {
		if op.schema.body, err = d.newBody(value); err != nil {
			return nil, fmt.Errorf("request body: %w", err)
		}
	}
	responses, _ := from["responses"].(node)
	op.schema.refusesBodies = responses[fmt.Sprint(http.StatusRequestEntityTooLarge)] != nil
	return op, nil
}

// isSecured reports whether there are alternatives, and each requires something.
func isSecured(security any) bool {
	alternatives, _ := security.([]any)
	isOptional := func(alternative any) bool {
		required, _ := alternative.(node)
		return len(required) == 0
	}
	return len(alternatives) > 0 && !slices.ContainsFunc(alternatives, isOptional)
}

func (s *operationSchema) addParameter(d document, value any) error {
	p, err := d.at(value)
	if err != nil {
		return err
	}
	name, _ := p["name"].(string)
	required, _ := p["required"].(bool)
	schema, err := d.at(p["schema"])
	if err != nil {
		return fmt.Errorf("%s: schema: %w", name, err)
	}
	f, err := newField(name, required, schema)
	if err != nil {
		return err
	}
	switch p["in"] {
	case "path":
		s.path = append(s.path, f)
	case "query":
		s.query = append(s.query, f)
	case "header":
		s.header = append(s.header, f)
	default:
		return fmt.Errorf("%s: want it in path, query or header", name)
	}
	return nil
}

func (d document) newBody(value any) (*object, error) {
	body, err := d.at(value)
	if err != nil {
		return nil, err
	}
	content, _ := body["content"].(node)
	media, _ := content["application/json"].(node)
	if body["required"] != true || len(content) != 1 {
		return nil, errors.New("want it required, and application/json alone")
	}
	schema, err := d.at(media["schema"])
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return newObject(d, schema)
}
