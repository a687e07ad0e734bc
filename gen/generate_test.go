package gen

import (
	"bytes"
	"os"
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
