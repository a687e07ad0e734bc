package eventlist

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
)

// tagger makes weak ETags (RFC 9110 section 8.8.3) with a key. Otherwise an author of a text could find one that leaves the ETag unchanged,
// and clients would keep the old list. It encrypts the polynomial hash of GCM with a second key: that takes a tenth of the time of
// HMAC-SHA-256. The nonce may repeat, because nobody sees the hash itself.
type tagger struct {
	hash    cipher.AEAD
	encrypt cipher.Block
}

func newTagger(secret []byte) *tagger {
	const keySize = 16 // AES-128
	keys, err := hkdf.Key(sha256.New, secret, nil, "worldevents ETag", 2*keySize)
	if err != nil { // too long for HKDF
		panic(err)
	}
	t := new(tagger)
	block, _ := aes.NewCipher(keys[:keySize]) // fails only for other sizes of keys
	t.hash, _ = cipher.NewGCM(block)
	t.encrypt, _ = aes.NewCipher(keys[keySize:])
	return t
}

// SetKey replaces the secret of New. Older ETags match no list any more, so their clients get the list again.
func (l *Lists) SetKey(secret []byte) { l.tagger.Store(newTagger(secret)) }

// etag is a function of Link and body.
func (t *tagger) etag(link string, body []byte) string {
	var nonce [12]byte
	sealed := t.hash.Seal(nil, nonce[:], []byte(link), body)
	tag := sealed[len(link):]
	t.encrypt.Encrypt(tag, tag)
	return `W/"` + base64.RawURLEncoding.EncodeToString(tag) + `"`
}

// opaqueTag returns an ETag without W/, for weak comparison.
func opaqueTag(etag string) string { return strings.TrimPrefix(etag, "W/") }

// maxTags bounds If-None-Match. A watch compares all tags with the list after each change.
const maxTags = 16

// EntityTags returns copies of the entity tags of If-None-Match without W/, or AnyTag alone, or none if there are more than maxTags.
func EntityTags(ifNoneMatch []string) (tags []string) {
	candidates := strings.SplitN(strings.Join(ifNoneMatch, ","), ",", maxTags+1)
	if len(candidates) > maxTags {
		return nil
	}
	for _, candidate := range candidates {
		candidate = strings.TrimSpace(candidate)
		if candidate == AnyTag {
			return []string{AnyTag}
		}
		if tag := opaqueTag(candidate); len(tag) > 2 && tag[0] == '"' && tag[len(tag)-1] == '"' {
			tags = append(tags, strings.Clone(tag))
		}
	}
	return tags
}

// AnyTag in If-None-Match matches any tag (RFC 9110 section 13.1.2).
const AnyTag = "*"

// has reports whether a tag matches, by weak comparison.
func (c Caller) has(etag string) bool {
	return slices.Contains(c.Tags, AnyTag) || slices.Contains(c.Tags, opaqueTag(etag))
}
