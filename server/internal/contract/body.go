package contract

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxBody  = 64 << 10 // bytes
	maxDepth = 32       // of nested arrays and objects
)

var (
	// ErrMediaType is returned for a body that is not declared as uncompressed application/json in UTF-8.
	ErrMediaType = errors.New("body is not declared as application/json in UTF-8")
	// ErrTooLarge is returned for a body of more than 64 KiB.
	ErrTooLarge = errors.New("body is larger than 64 KiB")
	// ErrMalformed is returned for a body that is not one JSON document in UTF-8, repeats a name, is nested more than
	// 32 deep, or does not arrive whole.
	ErrMalformed = errors.New("body is malformed JSON")
)

// LoneSurrogates has a body decoded in which an escape such as \ud800 stands alone, which the grammar allows (RFC 8259
// section 8.2). A field with one does not fit; an unknown member may have it.
var LoneSurrogates = jsontext.AllowInvalidUTF8(true)

// readBody returns the value of a JSON body, and leaves the body to be read again. It returns ErrMediaType, ErrTooLarge
// or ErrMalformed.
func readBody(r *http.Request) (any, error) {
	if !isJSON(r.Header) {
		return nil, ErrMediaType
	}
	// net/http responds 100 to "Expect: 100-continue" when a body is first read. Too large a body is not asked for.
	if r.ContentLength > maxBody {
		return nil, ErrTooLarge
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if len(text) > maxBody {
		return nil, ErrTooLarge
	}
	var v anyJSON
	if err != nil || !utf8.Valid(text) || json.Unmarshal(text, &v, LoneSurrogates) != nil {
		return nil, ErrMalformed
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	return v.value, nil
}

// discardBody drops a body that the operation does not have; many clients send "{}". It reads the body first, because
// net/http would read it before the response is written: the handler's work would wait for a client that sends slowly.
// No more than 64 KiB are read, and nothing of a body that announces more. net/http decides whether the connection
// survives what is left.
func discardBody(r *http.Request) {
	if r.ContentLength != 0 && r.ContentLength <= maxBody {
		io.CopyN(io.Discard, r.Body, maxBody) // an error is the client's, and the body means nothing
	}
}

// isJSON reports whether a body is declared as uncompressed application/json in UTF-8 (RFC 8259 section 8.1).
func isJSON(h http.Header) bool {
	if len(h["Content-Type"]) != 1 || len(h["Content-Encoding"]) > 0 {
		return false
	}
	if h["Content-Type"][0] == "application/json" {
		return true
	}
	mediaType, parameters, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || mediaType != "application/json" {
		return false
	}
	charset, declared := parameters["charset"]
	return !declared || strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "utf8")
}

// anyJSON decodes any JSON value into the types that kin-openapi validates: bool, float64, string, []any,
// map[string]any, and nil for null.
type anyJSON struct{ value any }

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (v *anyJSON) UnmarshalJSONFrom(d *jsontext.Decoder) (err error) {
	v.value, err = decodeValue(d)
	return err
}

var errTooDeep = errors.New("nested too deep")

// decodeValue decodes the next value. It returns errTooDeep beyond maxDepth, and the errors of the decoder.
func decodeValue(d *jsontext.Decoder) (any, error) {
	if d.PeekKind() == '"' {
		return decodeString(d)
	}
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
	case '0':
		// A number beyond float64 is no error here. It may be an unknown member, which is ignored.
		number, _ := token.Float()
		return number, nil
	case '[':
		array := []any{}
		for d.PeekKind() != ']' {
			value, err := decodeValue(d)
			if err != nil {
				return nil, err
			}
			array = append(array, value)
		}
		_, err = d.ReadToken()
		return array, err
	case '{':
		object := make(map[string]any)
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String() // before the next read makes the token invalid
			if object[key], err = decodeValue(d); err != nil {
				return nil, err
			}
		}
		_, err = d.ReadToken()
		return object, err
	}
	return nil, nil // null
}

// decodeString decodes a string. What has a lone surrogate is no text in Unicode: it becomes null, which fits no field.
func decodeString(d *jsontext.Decoder) (any, error) {
	quoted, err := d.ReadValue()
	if err != nil {
		return nil, err
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return nil, nil
	}
	return string(text), nil
}
