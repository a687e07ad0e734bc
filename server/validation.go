package server

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"worldevents/gen"
	"worldevents/models"
	"worldevents/server/internal/contract"
	"worldevents/server/internal/observe"
	"worldevents/server/internal/pages"
)

// operationMiddlewares returns the middleware of each operation by operationId: requireAuth and the limit of writes where the contract
// requires security, the validation, and innermost. It also makes their series.
func (s *Server) operationMiddlewares(operations []*contract.Operation, writes *rates[models.ID], innermost echo.MiddlewareFunc) map[string][]echo.MiddlewareFunc {
	all, writeLimit := make(map[string][]echo.MiddlewareFunc), limitWrites(writes)
	for _, op := range operations {
		route := route{op.Method, strings.NewReplacer("{", ":", "}", "").Replace(op.Path)}
		series := s.observer.Series(op.ID, op.Method)
		series.Expect(observe.Kind{Status: http.StatusOK})
		s.router.series[route] = series
		var chain []echo.MiddlewareFunc
		if op.Secured {
			chain = append(chain, before(s.requireAuth))
			if op.Method != http.MethodGet {
				chain = append(chain, writeLimit)
			}
		}
		all[op.ID] = append(chain, before(joinTags), validate(op), innermost)
	}
	return all
}

// Contract is openapi.yaml, parsed once for any number of servers.
type Contract struct {
	text       *pages.Contract
	operations []*contract.Operation
}

// ReadContract parses gen.OpenAPI; text is published.
func ReadContract(text []byte) (*Contract, error) {
	operations, err := contract.Load(gen.OpenAPI)
	if err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	return &Contract{pages.NewContract(text, gen.OpenAPI), operations}, nil
}

// strictBinder is the generated code's echo.Binder. It binds the body alone and matches names by case; Echo's own also binds the query.
type strictBinder struct{}

func (strictBinder) Bind(v any, c echo.Context) error {
	return json.UnmarshalRead(c.Request().Body, v, contract.LoneSurrogates)
}

// CheckEvent returns the error of createEvent for these members of an event. Missing members are valid.
func CheckEvent(members map[string]string) error {
	operations, err := contract.Load(gen.OpenAPI)
	if err != nil {
		return err
	}
	return checkEvent(operations, members)
}

func checkEvent(operations []*contract.Operation, members map[string]string) error {
	body := map[string]string{"name": "n", "description": "", "scheduledAt": "2030-01-01T00:00:00Z"}
	maps.Copy(body, members)
	text, err := json.Marshal(body, jsontext.AllowInvalidUTF8(true))
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
