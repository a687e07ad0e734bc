package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"

	"worldevents/server/internal/contract"
)

// CheckEvent reports what of an event's members does not fit the contract, as createEvent would. Members that are missing
// are not looked at.
func CheckEvent(openapi []byte, members map[string]string) error {
	operations, err := contract.Load(openapi)
	if err != nil {
		return err
	}
	body := map[string]string{"name": "n", "description": "", "scheduledAt": "2030-01-01T00:00:00Z"}
	for name, text := range members {
		body[name] = text
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(http.MethodPost, "/", bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	create := slices.IndexFunc(operations, func(op *contract.Operation) bool { return op.ID == "createEvent" })
	return operations[create].Validate(r, func(string) string { return "world" })
}
