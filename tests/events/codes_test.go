package events

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

// messages say what each field must be, whatever is wrong with it.
var messages = map[string]string{
	"body":        "must be a JSON object",
	"name":        "must be 1 to 200 characters, not only white space, without control characters",
	"description": "must be 0 to 5000 characters, without control characters other than tab and line breaks",
	"scheduledAt": "must be an RFC 3339 date-time with Z or an offset up to 14:00, in UTC within the years 1970 to 9999",
	"id":          "must be 1 to 128 characters without control characters, in UTF-8, and not . or ..",
	"limit":       "must be a whole number from 1 to 1000",
	"wait":        "must be a whole number from 1 to 50",
	"cursor":      "must be a cursor from the Link of this world's list",
	"query":       "must be percent-encoded",
}

// Each bad field has one code and one message, and always the same, however many rules refuse it.
func TestFieldCodes(t *testing.T) {
	type codes = map[string]string
	with := func(name, value string) string {
		event := map[string]json.RawMessage{"name": []byte(`"n"`), "description": []byte(`""`), "scheduledAt": []byte(`"` + servicetest.When + `"`)}
		event[name] = []byte(value)
		body, _ := json.Marshal(event)
		return string(body)
	}
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		alice := s.SignIn("alice")
		for _, test := range []struct {
			method, path, body string
			want               codes
			keys               []string
		}{
			{"POST", "plaza", `{}`, codes{"name": "required", "description": "required", "scheduledAt": "required"}, nil},
			{"POST", "plaza", `{"Name":"n","DESCRIPTION":"d","scheduledat":""}`, codes{"name": "required", "description": "required", "scheduledAt": "required"}, nil},
			{"POST", strings.Repeat("w", 129), `{"name":"","description":null,"scheduledAt":"x"}`,
				codes{"id": "maxLength", "name": "minLength", "description": "type", "scheduledAt": "format"}, nil},
			{"POST", "plaza", with("name", "null"), codes{"name": "type"}, nil},
			{"POST", "plaza", with("name", "7"), codes{"name": "type"}, nil},
			{"POST", "plaza", with("name", `"\ud83d"`), codes{"name": "type"}, nil},
			{"POST", "plaza", with("name", `""`), codes{"name": "minLength"}, nil},
			{"POST", "plaza", with("name", `" "`), codes{"name": "pattern"}, nil},
			{"POST", "plaza", with("name", `"`+strings.Repeat(" ", 201)+`"`), codes{"name": "maxLength"}, nil},
			{"POST", "plaza", with("description", "[]"), codes{"description": "type"}, nil},
			{"POST", "plaza", with("description", `"\u0000"`), codes{"description": "pattern"}, nil},
			{"POST", "plaza", with("description", `"`+strings.Repeat(`\u0000`, 5001)+`"`), codes{"description": "maxLength"}, nil},
			{"POST", "plaza", with("scheduledAt", "{}"), codes{"scheduledAt": "type"}, nil},
			{"POST", "plaza", with("scheduledAt", `"2030-02-30T00:00:00Z"`), codes{"scheduledAt": "format"}, nil},
			{"POST", "plaza", "null", codes{"body": "type"}, nil},
			{"POST", "plaza", "[]", codes{"body": "type"}, nil},
			{"POST", "%00", "7", codes{"id": "pattern", "body": "type"}, nil},
			{"POST", "plaza", servicetest.EventBody, codes{"Idempotency-Key": "minLength"}, []string{""}},
			{"POST", "plaza", servicetest.EventBody, codes{"Idempotency-Key": "maxLength"}, []string{strings.Repeat("k k", 100)}},
			{"POST", "plaza", servicetest.EventBody, codes{"Idempotency-Key": "pattern"}, []string{"k k"}},
			{"POST", "plaza", servicetest.EventBody, codes{"Idempotency-Key": "pattern"}, []string{"k\xe4"}},
			{"POST", "plaza", servicetest.EventBody, codes{"Idempotency-Key": "repeated"}, []string{"k", "k"}},
			{"GET", "%2E", "", codes{"id": "not"}, nil},
			{"GET", "%00", "", codes{"id": "pattern"}, nil},
			{"GET", "%FF", "", codes{"id": "format"}, nil},
			{"GET", strings.Repeat("%00", 129), "", codes{"id": "maxLength"}, nil},
			{"GET", "plaza?limit=0&wait=51", "", codes{"limit": "minimum", "wait": "maximum"}, nil},
			{"GET", "plaza?limit=-99999999999999999999&wait=2147483648", "", codes{"limit": "minimum", "wait": "maximum"}, nil},
			{"GET", "plaza?limit=1e2&wait=", "", codes{"limit": "type", "wait": "type"}, nil},
			{"GET", "plaza?limit=%FF&cursor=%FF", "", codes{"limit": "type", "cursor": "format"}, nil},
			{"GET", "plaza?limit=1&limit=1&from=x&to=&cursor=", "", codes{"limit": "repeated", "from": "format", "to": "format", "cursor": "minLength"}, nil},
			{"GET", "plaza?cursor=x", "", codes{"cursor": "cursor"}, nil},
			{"GET", "plaza?cursor=%zz", "", codes{"query": "format"}, nil},
			{"GET", "plaza?limit=1;from=x", "", codes{"query": "format"}, nil},
			{"GET", "plaza?limit=9223372036854775808", "", codes{"limit": "maximum"}, nil},
		} {
			for range 5 { // nothing depends on the order in which a map is walked
				res := alice.Do(test.method, "/api/event/"+test.path, test.body, func(r *http.Request) {
					if test.keys != nil {
						withKey(test.keys...)(r)
					}
				})
				if got := res.Error(); !maps.Equal(got.FieldCodes, test.want) || len(got.Fields) != len(test.want) {
					t.Fatalf("%.60s %.60s %.9q: %s", test.path, test.body, test.keys, res.Body)
				}
				for field, message := range messages {
					switch got := res.Error(); got.FieldCodes[field] {
					case "":
						continue
					case "required":
						message = "is required"
					case "repeated":
						message = "must be given once"
					}
					servicetest.Is(t, res.Error().Fields[field], message, "%s", field)
				}
			}
		}
	})
}
