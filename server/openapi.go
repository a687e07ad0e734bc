package server

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
)

// publishedContract is openapi.yaml as clients see it, with the service's public address in it.
type publishedContract struct{ yaml, json []byte }

// serverLine is where openapi.yaml names the service's address.
const serverLine = "\n  - url: /\n"

// publishContract puts the public address into the text of openapi.yaml. It returns an error when there is no place for
// it.
func publishContract(text []byte, baseURL string) (*publishedContract, error) {
	if bytes.Count(text, []byte(serverLine)) != 1 {
		return nil, errors.New("servers: want exactly one entry with the url /")
	}
	text = bytes.Replace(text, []byte(serverLine), fmt.Appendf(nil, "\n  - url: %q\n", baseURL), 1)
	inJSON, err := yaml.YAMLToJSON(text) // keeps the order of the text
	return &publishedContract{text, bytes.TrimRight(inJSON, "\n")}, err
}
