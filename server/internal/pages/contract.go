package pages

import (
	"bytes"
	"errors"
	"fmt"
)

// Contract is openapi.yaml in both published forms.
type Contract struct{ yaml, json []byte }

// The place of the public address in the two forms.
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

// at returns the contract with the public address.
func (c *Contract) at(baseURL string) *Contract {
	return &Contract{
		bytes.Replace(c.yaml, []byte(yamlServer), fmt.Appendf(nil, "\n  - url: %q\n", baseURL), 1),
		bytes.Replace(c.json, []byte(jsonServer), fmt.Appendf(nil, `"servers": [{"url": %q`, baseURL), 1),
	}
}
