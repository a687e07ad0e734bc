package pages

import (
	"bytes"
	"fmt"
)

// Contract is openapi.yaml in both published forms.
type Contract struct{ yaml, json []byte }

// The place of the public address in the two forms.
const (
	yamlServer = "\n  - url: /\n"
	jsonServer = `"servers": [{"url": "/"`
)

func NewContract(inYAML, inJSON []byte) *Contract {
	return &Contract{inYAML, bytes.TrimRight(inJSON, "\n")}
}

// at returns the contract with the public address.
func (c *Contract) at(baseURL string) *Contract {
	return &Contract{
		bytes.Replace(c.yaml, []byte(yamlServer), fmt.Appendf(nil, "\n  - url: %q\n", baseURL), 1),
		bytes.Replace(c.json, []byte(jsonServer), fmt.Appendf(nil, `"servers": [{"url": %q`, baseURL), 1),
	}
}
