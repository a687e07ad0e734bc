package server

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"

	"worldevents/server/internal/contract"
)

// Contract is openapi.yaml, read once for any number of servers.
type Contract struct {
	yaml, json []byte
	operations []*contract.Operation
}

// Where the two forms of openapi.yaml name the service's address.
const (
	yamlServer = "\n  - url: /\n"
	jsonServer = `"servers": [{"url": "/"`
)

// ReadContract reads the text of openapi.yaml. It returns an error when that is no contract, when it has rules that the
// service would not enforce, and when it has no place for the public address.
func ReadContract(text []byte) (*Contract, error) {
	operations, err := contract.Load(text)
	if err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	inJSON, err := yaml.YAMLToJSON(text) // keeps the order of the text
	if err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	if bytes.Count(text, []byte(yamlServer)) != 1 || bytes.Count(inJSON, []byte(jsonServer)) != 1 {
		return nil, errors.New("openapi.yaml: servers: want exactly one entry with the url /")
	}
	return &Contract{text, bytes.TrimRight(inJSON, "\n"), operations}, nil
}

// publishedContract is openapi.yaml as clients see it, with the service's public address in it.
type publishedContract struct{ yaml, json []byte }

// at puts the public address into the contract.
func (c *Contract) at(baseURL string) *publishedContract {
	return &publishedContract{
		bytes.Replace(c.yaml, []byte(yamlServer), fmt.Appendf(nil, "\n  - url: %q\n", baseURL), 1),
		bytes.Replace(c.json, []byte(jsonServer), fmt.Appendf(nil, `"servers": [{"url": %q`, baseURL), 1),
	}
}
