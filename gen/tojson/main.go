// Command tojson writes a YAML file as a JSON file, in the same order.
//
//	go run ./gen/tojson openapi.yaml gen/openapi.json
package main

import (
	"fmt"
	"os"

	"github.com/goccy/go-yaml"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "tojson:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	inJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		return err
	}
	return os.WriteFile(to, inJSON, 0o644)
}
