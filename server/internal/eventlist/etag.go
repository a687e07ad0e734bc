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

// tagger makes weak ETags (RFC 9110 section 8.8.3) that nobody without the key can compute: else somebody who may
// choose a text of the list could find one that leaves the ETag as it is, and all who have the old list would keep it.
//
// It hashes with the keyed polynomial of GCM, a tenth of the time of HMAC-SHA-256, and enciphers the hash with a second
// key. Nobody ever sees the hash itself, which is why its nonce may always be the same.
type tagger struct {
	hash    cipher.AEAD
	encrypt cipher.Block
}

func newTagger(secret []byte) *tagger {
	const keySize = 16 // AES-128
	keys, err := hkdf.Key(sha256.New, secret, nil, "worldevents ETag", 2*keySize)
	if err != nil { // no more was asked for than HKDF can give
		panic(err)
	}
	t := new(tagger)
	block, _ := aes.NewCipher(keys[:keySize]) // fails for other sizes of keys alone
	t.hash, _ = cipher.NewGCM(block)
	t.encrypt, _ = aes.NewCipher(keys[keySize:])
	return t
}

// SetKey replaces the secret of New. ETags of before match no list that is read afterwards, so a watch with such an ETag gets the
// list again.
func (l *Lists) SetKey(secret []byte) { l.tagger.Store(newTagger(secret)) }

// etag is a function of Link and body.
func (t *tagger) etag(link string, body []byte) string {
	var nonce [12]byte
	sealed := t.hash.Seal(nil, nonce[:], []byte(link), body)
	tag := sealed[len(link):]
	t.encrypt.Encrypt(tag, tag)
	return `W/"` + base64.RawURLEncoding.EncodeToString(tag) + `"`
}

// opaqueTag returns an ETag without W/, as it is compared weakly.
func opaqueTag(etag string) string { return strings.TrimPrefix(etag, "W/") }

// maxTags is how many entity tags If-None-Match may have. A watch compares all of its own with the list after each change.
const maxTags = 16

// EntityTags returns the entity tags of the lines of If-None-Match without W/, or AnyTag alone. With more than maxTags of them it returns
// none: the header then counts as absent. The tags do not keep the lines.
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

// AnyTag is what If-None-Match has instead of entity tags to match any (RFC 9110 section 13.1.2).
const AnyTag = "*"

// has reports whether the caller has the list with that ETag. It compares weakly, as If-None-Match does.
func (c Caller) has(etag string) bool {
	return slices.Contains(c.Tags, AnyTag) || slices.Contains(c.Tags, opaqueTag(etag))
}
