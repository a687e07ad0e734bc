package server

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"worldevents/server/internal/contract"
	"worldevents/server/internal/observe"
)

// operationMiddlewares returns what stands in front of each operation's handler, by operationId: what the operation is
// logged and counted as, requireAuth where the contract names security that cannot be left out, with the limit of writes,
// and the validation of the request. innermost comes after all these.
func (s *Server) operationMiddlewares(operations []*contract.Operation, writeRate float64, innermost echo.MiddlewareFunc) map[string][]echo.MiddlewareFunc {
	all, limit := make(map[string][]echo.MiddlewareFunc), limitWrites(writeRate)
	for _, op := range operations {
		route := route{op.Method, strings.NewReplacer("{", ":", "}", "").Replace(op.Path)}
		series := s.observer.Series(op.ID, op.Method)
		series.Expect(observe.Kind{Status: http.StatusOK})
		s.router.series[route] = series
		chain := []echo.MiddlewareFunc{setSeries(series)}
		if op.Secured {
			chain = append(chain, s.requireAuth, limit(op))
		}
		all[op.ID] = append(chain, s.bodies.validate(op), innermost)
	}
	return all
}

// strictBinder is the echo.Binder of the generated code. It binds the body alone and matches names by case, as the
// validation does; Echo's own would also bind the query.
type strictBinder struct{}

func (strictBinder) Bind(v any, c echo.Context) error {
	return json.UnmarshalRead(c.Request().Body, v, contract.LoneSurrogates)
}
