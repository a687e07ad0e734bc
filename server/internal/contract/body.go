package contract

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
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
	// ErrTooLarge is returned for a body of more than 64 KiB, and for an unwanted one that does not end in time.
	ErrTooLarge = errors.New("body is larger than 64 KiB, or does not end")
	// ErrMalformed is returned for a body that is not one JSON document in UTF-8, repeats a name, is nested more than
	// 32 deep, or does not arrive whole.
	ErrMalformed = errors.New("body is malformed JSON")
)

// LoneSurrogates allows escapes such as \ud800 alone, as the grammar does (RFC 8259 section 8.2). Only fields refuse them.
var LoneSurrogates = jsontext.AllowInvalidUTF8(true)

// readBody returns a JSON body, which can be read again. It returns ErrMediaType, ErrTooLarge or ErrMalformed.
func readBody(r *http.Request) ([]byte, error) {
	if !isJSON(r.Header) {
		return nil, ErrMediaType
	}
	// The first read makes net/http respond 100 to "Expect: 100-continue", so too large a body is not read.
	if r.ContentLength > maxBody {
		return nil, ErrTooLarge
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if len(text) > maxBody {
		return nil, ErrTooLarge
	}
	if err != nil || !utf8.Valid(text) {
		return nil, ErrMalformed
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	return text, nil
}

// drain reads a body that the operation does not have, since many clients send "{}", and reports whether it ended within 64 KiB. It comes
// first, before the request acquires anything: net/http would read the body before it writes the response.
func drain(r *http.Request) bool {
	if r.ContentLength == 0 || r.ContentLength > maxBody {
		return r.ContentLength == 0
	}
	_, err := io.CopyN(io.Discard, r.Body, maxBody+1)
	return err == io.EOF
}

// isJSON reports whether the body is uncompressed application/json in UTF-8 (RFC 8259 section 8.1).
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

// body is the contract of a body: a JSON object without arrays and objects.
type body struct {
	schema   *openapi3.Schema
	messages map[string]string // by member; "body" is the body as a whole
}

// validate adds the faults of a body to fields. It returns the errors of readBody.
func (b *body) validate(r *http.Request, fields *FieldsError) error {
	text, err := readBody(r)
	if err != nil {
		return err
	}
	var value any
	if json.Unmarshal(text, &value, LoneSurrogates, decoding) != nil {
		return ErrMalformed
	}
	if err := b.schema.VisitJSON(value, allFaults...); err != nil {
		fields.addFaults(err, "body", b.messages)
	}
	return nil
}

// addFaults adds the faults of an error of openapi3.Schema: of the whole, or of its members.
func (e *FieldsError) addFaults(err error, whole string, messages map[string]string) {
	if several, ok := err.(openapi3.MultiError); ok {
		for _, err := range several {
			e.addFaults(err, whole, messages)
		}
		return
	}
	name, code := whole, "type"
	if fault, ok := err.(*openapi3.SchemaError); ok {
		if path := fault.JSONPointer(); len(path) > 0 {
			name = path[0]
		}
		if fault.SchemaField != "nullable" { // JSON Schema has null as a type
			code = fault.SchemaField
		}
	}
	message := messages[name]
	if code == "required" {
		message = "is required"
	}
	e.add(name, code, message)
}

// decoding decodes into the types of openapi3.Schema. It returns the errors of skipValue.
var decoding = json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, to *any) error {
	switch kind := d.PeekKind(); kind {
	case '{', '[':
		if kind == '[' || d.StackDepth() > 0 {
			*to = unfit{}
			return skipValue(d)
		}
	case '0':
		number, err := d.ReadValue()
		*to = stdjson.Number(number) // may be beyond all floats
		return err
	case '"':
		quoted, err := d.ReadValue()
		if err != nil {
			return err
		}
		text, err := jsontext.AppendUnquote(nil, quoted)
		if *to = string(text); err != nil { // a lone surrogate is no character of Unicode
			*to = unfit{}
		}
		return nil
	}
	return errors.ErrUnsupported
}))

// unfit fits no schema with a type, because openapi3.Schema refuses unknown Go types.
type unfit struct{}

// skipValue reads a value. It returns ErrMalformed beyond maxDepth, and the errors of the decoder.
func skipValue(d *jsontext.Decoder) error {
	for outer := d.StackDepth(); ; {
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		switch depth := d.StackDepth(); {
		case depth > maxDepth:
			return ErrMalformed
		case depth <= outer:
			return nil
		}
	}
}
