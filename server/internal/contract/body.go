package contract

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
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
	// ErrTooLarge is returned for a body of more than 64 KiB, and for one that nobody wants and that does not end in time.
	ErrTooLarge = errors.New("body is larger than 64 KiB, or does not end")
	// ErrMalformed is returned for a body that is not one JSON document in UTF-8, repeats a name, is nested more than
	// 32 deep, or does not arrive whole.
	ErrMalformed = errors.New("body is malformed JSON")
)

// LoneSurrogates has a body decoded in which an escape such as \ud800 stands alone, which the grammar allows (RFC 8259
// section 8.2). A field with one does not fit; an unknown member may have it.
var LoneSurrogates = jsontext.AllowInvalidUTF8(true)

// readBody returns the text of a JSON body, and leaves the body to be read again. It returns ErrMediaType, ErrTooLarge or
// ErrMalformed.
func readBody(r *http.Request) ([]byte, error) {
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
	if err != nil || !utf8.Valid(text) {
		return nil, ErrMalformed
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	return text, nil
}

// drain reads a body that the operation does not have, and reports whether it has ended within 64 KiB; many clients send "{}".
// It comes before all work, because net/http would read the body before it writes the response: whatever the request holds by
// then would wait for a client that sends nothing. Too large a body is not asked for.
func drain(r *http.Request) bool {
	if r.ContentLength == 0 || r.ContentLength > maxBody {
		return r.ContentLength == 0
	}
	_, err := io.CopyN(io.Discard, r.Body, maxBody+1)
	return err == io.EOF
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

// validate adds the fields of a body that do not fit. It returns the errors of readBody.
func (o *object) validate(r *http.Request, fields *FieldsError) error {
	text, err := readBody(r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &validator{o, fields}, LoneSurrogates); err != nil {
		return ErrMalformed
	}
	return nil
}

// validator validates a body while it is decoded.
type validator struct {
	*object
	fields *FieldsError
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom. It returns the errors of the decoder, and errTooDeep.
func (v *validator) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '{' {
		v.fields.add("body", v.message)
		return skipValue(d)
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	present := make([]bool, len(v.members))
	for d.PeekKind() != '}' {
		name, _, err := readString(d)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(v.members, func(f field) bool { return f.name == name })
		if i < 0 {
			if err := skipValue(d); err != nil {
				return err
			}
			continue
		}
		present[i] = true
		if err := v.validateMember(&v.members[i], d); err != nil {
			return err
		}
	}
	for i, f := range v.members {
		if f.required && !present[i] {
			v.fields.add(f.name, "is required")
		}
	}
	_, err := d.ReadToken()
	return err
}

func (v *validator) validateMember(f *field, d *jsontext.Decoder) error {
	if d.PeekKind() != '"' {
		v.fields.add(f.name, f.message)
		return skipValue(d)
	}
	text, whole, err := readString(d)
	if err == nil && !(whole && f.fits(text)) {
		v.fields.add(f.name, f.message)
	}
	return err
}

// readString reads a string. One that is not whole has a lone surrogate, which is no character of Unicode.
func readString(d *jsontext.Decoder) (text string, whole bool, err error) {
	quoted, err := d.ReadValue()
	if err != nil {
		return "", false, err
	}
	var buffer [64]byte
	unquoted, err := jsontext.AppendUnquote(buffer[:0], quoted)
	return string(unquoted), err == nil, nil
}

var errTooDeep = errors.New("nested too deep")

// skipValue reads a value. It returns errTooDeep beyond maxDepth, and the errors of the decoder.
func skipValue(d *jsontext.Decoder) error {
	for outer := d.StackDepth(); ; {
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		switch depth := d.StackDepth(); {
		case depth > maxDepth:
			return errTooDeep
		case depth <= outer:
			return nil
		}
	}
}
