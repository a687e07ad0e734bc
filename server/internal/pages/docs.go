package pages

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
)

//go:embed assets
var assets embed.FS

// docsPolicy allows what Swagger UI needs: its own files, the API of this origin, and icons in its style sheet.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// RegisterDocs serves the published contract and Swagger UI.
func (p *Pages) RegisterDocs(r Router, contract *Contract) {
	published := contract.at(p.BaseURL)
	r.Get("docs", "/", func(c echo.Context) error { return c.Redirect(http.StatusSeeOther, p.Base+"/docs") })
	r.GetOrHead("contract", "/openapi.json", func(c echo.Context) error { return publish(c, "application/json", published.json) })
	r.GetOrHead("contract", "/openapi.yaml", func(c echo.Context) error { return publish(c, "application/yaml", published.yaml) })
	r.GetOrHead("docs", "/docs", func(c echo.Context) error { return p.Render(c, http.StatusOK, "docs.html", docsPolicy, Page{}) })
	for _, name := range []string{"docs.css", "docs.js", "calls.js"} {
		r.GetOrHead("assets", "/docs/"+name, asset(name))
	}
	for _, name := range []string{"swagger-ui.css", "swagger-ui-bundle.js"} {
		r.GetOrHead("assets", "/docs/"+name, kept("max-age=3600", newSwaggerFile(name)))
	}
}

// RegisterAssets serves the common files of all pages, below our own path: a proxy may share /assets with an application.
func (p *Pages) RegisterAssets(r Router) {
	for _, name := range []string{"page.css", "page.js", "icon.svg"} {
		r.GetOrHead("assets", "/sign-in/"+name, asset(name))
	}
}

// publish writes the contract, which pages of any origin may read.
func publish(c echo.Context, mediaType string, text []byte) error {
	h := c.Response().Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Del("Vary")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	return c.Blob(http.StatusOK, mediaType, text)
}

// asset serves a file of assets. Browsers revalidate it before each use: that of another version would not fit the page.
func asset(name string) echo.HandlerFunc {
	content, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	sum := sha256.Sum256(content)
	tag := fmt.Sprintf(`"%x"`, sum[:16])
	return kept("no-cache", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	}))
}

// kept lets any cache keep a response.
func kept(how string, files http.Handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Header().Set("Cache-Control", "public, "+how)
		c.Response().Header().Del("Vary")
		files.ServeHTTP(c.Response(), c.Request())
		return nil
	}
}
