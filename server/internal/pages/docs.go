package pages

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// The files of Swagger UI are those that make generate extracts from its package.
//
//go:embed assets swagger/*.gz
var files embed.FS

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
		r.GetOrHead("assets", "/docs/"+name, asset("assets/"+name))
	}
	for _, name := range []string{"swagger-ui.css", "swagger-ui-bundle.js"} {
		r.GetOrHead("assets", "/docs/"+name, asset("swagger/"+name+".gz"))
	}
}

// RegisterAssets serves the common files of all pages, below our own path: a proxy may share /assets with an application.
func (p *Pages) RegisterAssets(r Router) {
	for _, name := range []string{"page.css", "page.js", "icon.svg"} {
		r.GetOrHead("assets", "/sign-in/"+name, asset("assets/"+name))
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

// asset serves an embedded file. Browsers revalidate it before each use: that of another version would not fit the page. A compressed file
// is sent so to everybody, since every browser decompresses it.
func asset(path string) echo.HandlerFunc {
	content, err := files.ReadFile(path)
	if err != nil {
		panic(err) // it is embedded
	}
	sum := sha256.Sum256(content)
	tag := fmt.Sprintf(`"%x"`, sum[:16])
	name, compressed := strings.CutSuffix(path, ".gz")
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("Cache-Control", "public, no-cache")
		h.Set("ETag", tag)
		h.Del("Vary")
		if compressed {
			h.Set("Content-Encoding", "gzip")
			h.Set("Content-Length", strconv.Itoa(len(content))) // ServeContent leaves it out where there is an encoding
		}
		http.ServeContent(c.Response(), c.Request(), name, time.Time{}, bytes.NewReader(content))
		return nil
	}
}
