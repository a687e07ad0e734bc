package gen

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/goccy/go-yaml"
)

// The service goes by openapi.json, and everybody else by openapi.yaml.
func TestOpenAPI(t *testing.T) {
	text, err := os.ReadFile("../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if want, err := yaml.YAMLToJSON(text); err != nil || !bytes.Equal(OpenAPI, want) {
		t.Errorf("openapi.json is not openapi.yaml as JSON: run make generate (%v)", err)
	}
}

// A tool that makes requests and responses from the contract invents nothing, but for the parameters that no made-up value fits.
func TestExamples(t *testing.T) {
	var doc any
	if err := json.Unmarshal(OpenAPI, &doc); err != nil {
		t.Fatal(err)
	}
	invented := invented("", doc)
	slices.Sort(invented)
	if want := []string{"Idempotency-Key", "If-None-Match", "cursor", "wait"}; !slices.Equal(invented, want) {
		t.Errorf("got no example for %q, want %q", invented, want)
	}
}

// invented names the values in a part of the contract that have neither an example nor a list of what they may be.
func invented(name string, part any) (names []string) {
	switch part := part.(type) {
	case []any:
		for _, item := range part {
			names = append(names, invented(name, item)...)
		}
	case map[string]any:
		if part["example"] != nil || part["examples"] != nil || part["enum"] != nil {
			return nil
		}
		if slices.Contains([]any{"string", "integer", "number", "boolean"}, part["type"]) {
			return []string{name}
		}
		for key, value := range part {
			if own, ok := part["name"].(string); ok { // a parameter
				key = own
			} else if key == "schema" || key == "items" {
				key = name
			}
			names = append(names, invented(key, value)...)
		}
	}
	return names
}
