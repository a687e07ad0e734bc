package server

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"
)

const (
	maxBody  = 64 << 10 // bytes
	maxDepth = 32       // of nested arrays and objects
)

// readBody reads a JSON body strictly and leaves it in place to be bound. It returns errMediaType, errTooLarge
// (before a byte is read when the length is announced, so that "Expect: 100-continue" is never answered with 100),
// or errMalformed.
func readBody(r *http.Request) (any, error) {
	if !isJSON(r.Header) {
		return nil, errMediaType
	}
	if r.ContentLength > maxBody {
		return nil, errTooLarge
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if len(text) > maxBody {
		return nil, errTooLarge
	}
	var d document
	if err != nil || json.Unmarshal(text, &d) != nil {
		return nil, errMalformed
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	return d.value, nil
}

// isJSON tells whether a body is declared as uncompressed application/json in UTF-8 (RFC 8259 section 8.1).
func isJSON(h http.Header) bool {
	if len(h["Content-Type"]) != 1 || len(h["Content-Encoding"]) > 0 {
		return false
	}
	kind, parameters, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return false
	}
	charset, declared := parameters["charset"]
	return !declared || strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "utf8")
}

// document is any JSON value.
type document struct{ value any }

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (v *document) UnmarshalJSONFrom(d *jsontext.Decoder) (err error) {
	v.value, err = decode(d)
	return err
}

// decode reads a value as kin-openapi wants it. A number beyond float64 is none: it may be an unknown member, which is
// nobody's business. What is nested too deep is refused.
func decode(d *jsontext.Decoder) (any, error) {
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	if d.StackDepth() > maxDepth {
		return nil, errTooDeep
	}
	switch token.Kind() {
	case 't', 'f':
		return token.Bool(), nil
	case '"':
		return token.String(), nil
	case '0':
		number, _ := token.Float()
		return number, nil
	case '[':
		list := []any{}
		for d.PeekKind() != ']' {
			value, err := decode(d)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err = d.ReadToken()
		return list, err
	case '{':
		object := make(map[string]any)
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String() // the token is gone with the next
			if object[key], err = decode(d); err != nil {
				return nil, err
			}
		}
		_, err = d.ReadToken()
		return object, err
	}
	return nil, nil // null
}

var errTooDeep = errors.New("nested too deep")

// discardBody drops a body that the operation does not have; many clients send "{}". It reads the body first, because
// net/http would read it before the response is written: the handler's work would wait for a client that sends slowly.
// No more than 64 KiB are read, and nothing of a body that announces more. net/http decides whether the connection
// survives what is left.
func discardBody(r *http.Request) {
	if r.ContentLength != 0 && r.ContentLength <= maxBody {
		io.CopyN(io.Discard, r.Body, maxBody) // an error is the client's, and the body means nothing
	}
}

// strictBinder is Echo's Binder: the body alone, names matched by case. Echo's own would also bind the query.
type strictBinder struct{}

func (strictBinder) Bind(v any, c echo.Context) error {
	return json.UnmarshalRead(c.Request().Body, v)
}
