package oidc

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/go-jose/go-jose/v4"
)

// usableKeys is a transport that leaves those keys out of a provider's set (RFC 7517 section 5) that cannot be used: one of a kind
// that is not known here would else keep everybody from signing in.
type usableKeys struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper. What is no set of keys passes as it is.
func (t usableKeys) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.RoundTripper.RoundTrip(r)
	if err != nil || res.StatusCode != http.StatusOK {
		return res, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if json.Unmarshal(text, &set) == nil && set.Keys != nil {
		usable := []json.RawMessage{}
		for _, key := range set.Keys {
			if new(jose.JSONWebKey).UnmarshalJSON(key) == nil {
				usable = append(usable, key)
			}
		}
		set.Keys = usable
		if text, err = json.Marshal(set); err != nil {
			return nil, err
		}
	}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return res, nil
}
