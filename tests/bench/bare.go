package main

import (
	"net/http"

	"github.com/golang-jwt/jwt/v5"
	"github.com/labstack/echo/v4"
)

// newBare is the least that an Echo server can do for a session: verify the JWT in the cookie and say so.
func newBare() http.Handler {
	e := echo.New()
	e.GET("/api/auth/session", func(c echo.Context) error {
		cookie, err := c.Cookie("token")
		if err != nil {
			return c.JSON(http.StatusBadRequest, map[string]any{"authenticated": false, "error": "No token"})
		}
		var claims jwt.RegisteredClaims
		if _, err := parser.ParseWithClaims(cookie.Value, &claims, keyOf); err != nil {
			return c.JSON(http.StatusBadRequest, map[string]any{"authenticated": false, "error": "Invalid token"})
		}
		return c.JSON(http.StatusOK, struct {
			Authenticated bool `json:"authenticated"`
		}{true})
	})
	return e
}
