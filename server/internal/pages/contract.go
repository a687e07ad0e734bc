package pages

import (
	"bytes"
	"errors"
	"fmt"
)

// Contract is the text of openapi.yaml, in both forms in which it is published.
type Contract struct{ yaml, json []byte }

// Where the two forms of openapi.yaml name the service's address.
const (
	yamlServer = "\n  - url: /\n"
	jsonServer = `"servers": [{"url": "/"`
)

// NewContract returns an error when one of the texts has no place for the public address.
func NewContract(inYAML, inJSON []byte) (*Contract, error) {
	if bytes.Count(inYAML, []byte(yamlServer)) != 1 || bytes.Count(inJSON, []byte(jsonServer)) != 1 {
		return nil, errors.New("servers: want exactly one entry with the url /")
	}
	return &Contract{inYAML, bytes.TrimRight(inJSON, "\n")}, nil
}

// at returns the contract as clients see it, with the service's public address in it.
func (c *Contract) at(baseURL string) *Contract {
	return &Contract{
		bytes.Replace(c.yaml, []byte(yamlServer), fmt.Appendf(nil, "\n  - url: %q\n", baseURL), 1),
		bytes.Replace(c.json, []byte(jsonServer), fmt.Appendf(nil, `"servers": [{"url": %q`, baseURL), 1),
	}
}
