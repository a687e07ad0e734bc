package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"worldevents/models"
)

const (
	tokenCookie   = "token"
	refreshCookie = "refreshToken"
	// jwtTTL is the lifetime of a JWT.
	jwtTTL = 15 * time.Minute
	// clockSkew is how far the clock of another issuer or instance may be ahead.
	clockSkew = 5 * time.Second
	// maxCookie bounds a cookie's name and value together (RFC 6265bis section 5.6).
	maxCookie = 4096
	// refreshChars is the length of a refresh token: 64 random bytes in hexadecimal.
	refreshChars = 128
)

// sessions issues and verifies the two tokens, and builds their cookies.
type sessions struct {
	keys             []key
	issuer, audience string
	ttl, leeway      time.Duration
	// What follows the value of either cookie, to set it and to clear it.
	setAttributes, clearAttributes string
	now                            func() time.Time
	parsed                         [1 << 14]atomic.Pointer[parsedToken]
}

// parsedToken is a JWT whose signature was right, remembered in the place that its digest names until another takes
// that. A browser sends the same one for a quarter of an hour, and whether its claims still hold is asked each time.
type parsedToken struct {
	digest [sha256.Size]byte
	claims claims
}

type key struct {
	id     string
	secret []byte
	header string // the first part of a JWT that is signed with the key
}

// claims of a JWT (RFC 7519 section 4.1). Names are matched by case and must not repeat.
type claims struct {
	Subject   string           `json:"sub"`
	Username  string           `json:"username,omitzero"`
	Issuer    string           `json:"iss,omitzero"`
	Audience  jwt.ClaimStrings `json:"aud,omitzero"`
	IssuedAt  *numericDate     `json:"iat,omitzero"`
	NotBefore *numericDate     `json:"nbf,omitzero"`
	ExpiresAt *numericDate     `json:"exp"`
	ID        string           `json:"jti,omitzero"`
}

// numericDate is seconds since 1970 (RFC 7519 section 2), a number: golang-jwt's own would take a string as well.
type numericDate float64

func (d *numericDate) time() time.Time {
	seconds, fraction := math.Modf(float64(*d))
	return time.Unix(int64(seconds), int64(fraction*1e9)).UTC()
}

// possible is false for what no calendar has: Session-Expires must be able to say it.
func (d *numericDate) possible() bool { return d == nil || *d >= 0 && *d <= maxNumericDate }

// maxNumericDate is the end of the year 9999.
const maxNumericDate = 253402300799

// Session is a pair of tokens just issued.
type Session struct {
	UserID       string    `json:"userId"`
	Username     string    `json:"username"`
	Token        string    `json:"token"`
	RefreshToken string    `json:"refreshToken"`
	Expires      time.Time `json:"expires"` // of the JWT
}

func newSessions(o Options) *sessions {
	s := &sessions{
		issuer: o.Issuer, audience: o.Audience, ttl: o.RefreshTTL, leeway: o.ReuseLeeway, now: o.Now,
		// Both live as long as the refresh token: a JWT that the browser drops can never be refreshed.
		setAttributes:   cookieAttributes(o, int(o.RefreshTTL/time.Second)),
		clearAttributes: cookieAttributes(o, -1),
	}
	if s.now == nil {
		s.now = time.Now
	}
	for _, secret := range o.Keys {
		sum := sha256.Sum256(secret)
		id := hex.EncodeToString(sum[:8])
		header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"` + id + `","typ":"JWT"}`))
		s.keys = append(s.keys, key{id, secret, header})
	}
	return s
}

// newRefreshToken makes a refresh token and tells when it expires.
func (s *sessions) newRefreshToken() (token string, hash models.Hash, expires time.Time) {
	random := make([]byte, refreshChars/2)
	rand.Read(random) // never fails: without randomness the process ends
	token = hex.EncodeToString(random)
	return token, sha256.Sum256([]byte(token)), s.now().Add(s.ttl)
}

// hashRefreshToken is false for what cannot be a refresh token: it is matched byte for byte.
func hashRefreshToken(token string) (models.Hash, bool) {
	if len(token) != refreshChars || strings.Trim(token, "0123456789abcdef") != "" {
		return models.Hash{}, false
	}
	return sha256.Sum256([]byte(token)), true
}

// issue signs a JWT for who to go with a refresh token that the store has accepted.
func (s *sessions) issue(who models.Identity, refreshToken string) Session {
	now := s.now().UTC().Truncate(time.Second)
	c := claims{
		Subject: who.ID, Username: who.Username, Issuer: s.issuer, ID: uuid.NewString(),
		IssuedAt: secondsOf(now), ExpiresAt: secondsOf(now.Add(jwtTTL)),
	}
	if s.audience != "" {
		c.Audience = jwt.ClaimStrings{s.audience}
	}
	return Session{who.ID, who.Username, s.keys[0].sign(c), refreshToken, c.ExpiresAt.time()}
}

// sign makes a JWT.
func (k key) sign(c claims) string {
	payload, err := json.Marshal(c, jsontext.AllowInvalidUTF8(true)) // a database may hold anything
	if err != nil {                                                  // they are strings and whole numbers
		panic(err)
	}
	text := k.header + "." + base64.RawURLEncoding.EncodeToString(payload)
	signature, err := jwt.SigningMethodHS256.Sign(text, k.secret)
	if err != nil { // the key is one
		panic(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func secondsOf(t time.Time) *numericDate {
	d := numericDate(t.Unix())
	return &d
}

// cookieAttributes is what follows the value of each cookie.
func cookieAttributes(o Options, maxAge int) string {
	cookie := http.Cookie{
		Name:        tokenCookie,
		Path:        cmp.Or(basePath(o.BaseURL), "/"),
		Domain:      o.CookieDomain,
		MaxAge:      maxAge,
		HttpOnly:    true,
		Secure:      !o.Development,
		SameSite:    http.SameSiteNoneMode,
		Partitioned: o.CookiePartitioned,
	}
	if o.Development {
		cookie.SameSite = http.SameSiteLaxMode
	}
	return strings.TrimPrefix(cookie.String(), tokenCookie+"=")
}

// setCookies is the one place where the session's cookies are made: by refresh and session, sign-in and sign-out. A
// nil session clears them with the attributes they were set with.
func (s *sessions) setCookies(h http.Header, session *Session) {
	var token, refreshToken string
	attributes := s.clearAttributes
	if session != nil {
		token, refreshToken, attributes = session.Token, session.RefreshToken, s.setAttributes
	}
	h["Set-Cookie"] = append(h["Set-Cookie"], tokenCookie+"="+token+attributes, refreshCookie+"="+refreshToken+attributes)
}

// verify checks a JWT as RFC 7519 section 7.2 and RFC 8725 ask. It returns errNoToken for "", errToken for one that
// is wrong, and errExpired, together with the claims, for one whose only fault is its age.
func (s *sessions) verify(token string) (claims, error) {
	if token == "" {
		return claims{}, errNoToken
	}
	if len(tokenCookie)+len(token) > maxCookie {
		return claims{}, errToken
	}
	c, err := s.parseOnce(token)
	if err != nil {
		return claims{}, errToken
	}
	now := s.now()
	tooEarly := func(d *numericDate) bool { return d != nil && d.time().After(now.Add(clockSkew)) }
	switch {
	case c.Subject == "", c.ExpiresAt == nil,
		!c.ExpiresAt.possible(), !c.IssuedAt.possible(), !c.NotBefore.possible(),
		tooEarly(c.IssuedAt), tooEarly(c.NotBefore),
		s.issuer != "" && c.Issuer != s.issuer,
		s.audience != "" && !slices.Contains(c.Audience, s.audience):
		return claims{}, errToken
	case !now.Before(c.ExpiresAt.time()):
		return c, errExpired
	}
	return c, nil
}

// parseOnce is parse, without doing it again for a JWT that was right before.
func (s *sessions) parseOnce(token string) (claims, error) {
	digest := sha256.Sum256([]byte(token))
	place := &s.parsed[binary.NativeEndian.Uint64(digest[:])%uint64(len(s.parsed))]
	if known := place.Load(); known != nil && known.digest == digest {
		return known.claims, nil
	}
	c, err := s.parse(token)
	if err == nil {
		place.Store(&parsedToken{digest, c})
	}
	return c, err
}

// parse returns the claims of a JWT whose signature is right.
func (s *sessions) parse(token string) (c claims, err error) {
	_, err = parser.ParseWithClaims(token, &c, s.keysFor)
	return c, err
}

// parser checks form and signature; the claims are checked by verify, which must know whether age is the only fault.
var parser = jwt.NewParser(jwt.WithValidMethods([]string{"HS256"}), jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation())

var errKey = errors.New("no key for this header")

// keysFor picks the keys to try. A key id is compared and never looked up anywhere else; headers that bring a key
// along are ignored; crit names extensions that must be understood, and there are none (RFC 7515 section 4.1.11).
func (s *sessions) keysFor(t *jwt.Token) (any, error) {
	if _, ok := t.Header["crit"]; ok {
		return nil, errKey
	}
	id, named := t.Header["kid"]
	var set jwt.VerificationKeySet
	for _, k := range s.keys {
		if !named || id == k.id {
			set.Keys = append(set.Keys, k.secret)
		}
	}
	if len(set.Keys) == 0 {
		return nil, errKey
	}
	return set, nil
}

// UnmarshalJSON reads strictly, where encoding/json would match names in any case and take the last of several.
func (c *claims) UnmarshalJSON(b []byte) error {
	type plain claims
	return json.Unmarshal(b, (*plain)(c))
}

// The getters make claims what golang-jwt calls Claims. It asks for none: verify checks them itself.
func (claims) GetExpirationTime() (*jwt.NumericDate, error) { return nil, nil }
func (claims) GetIssuedAt() (*jwt.NumericDate, error)       { return nil, nil }
func (claims) GetNotBefore() (*jwt.NumericDate, error)      { return nil, nil }
func (claims) GetIssuer() (string, error)                   { return "", nil }
func (claims) GetSubject() (string, error)                  { return "", nil }
func (claims) GetAudience() (jwt.ClaimStrings, error)       { return nil, nil }

// errCookies means that several cookies of one name disagree. Which one a browser sends first depends on paths and
// age (RFC 6265bis section 5.8.3), so neither is believed.
var errCookies = errors.New("cookies of one name with different values")

// cookieValue returns the value of the cookie name, byte for byte, or "" when there is none. net/http would drop
// quotes, and whole cookies that it finds odd.
func cookieValue(h http.Header, name string) (value string, err error) {
	found := false
	for _, line := range h["Cookie"] {
		for len(line) > 0 {
			var pair string
			pair, line, _ = strings.Cut(line, ";")
			n, v, ok := strings.Cut(strings.Trim(pair, " \t"), "=")
			if !ok || n != name {
				continue
			}
			if found && v != value {
				return "", errCookies
			}
			value, found = v, true
		}
	}
	return value, nil
}

// SignIn issues a session to the user called username, which ends the user's earlier one. With create, a user who
// does not exist is made; else it returns models.ErrNoUser. It returns models.ErrUsername for an impossible name.
func (s *Server) SignIn(ctx context.Context, username string, create bool) (Session, error) {
	token, hash, expires := s.sessions.newRefreshToken()
	who, err := s.store.SignIn(ctx, username, create, hash, expires)
	if err != nil {
		return Session{}, err
	}
	return s.sessions.issue(who, token), nil
}

// refresh spends the refresh token old, which with a userID must be this user's, and sets both cookies. It fails with
// models.ErrRefreshToken, having set none.
func (s *Server) refresh(ctx context.Context, userID, old string) (Session, error) {
	call := callOf(ctx)
	hash, ok := hashRefreshToken(old)
	if !ok {
		s.metrics.refreshes.WithLabelValues("refused").Inc()
		return Session{}, models.ErrRefreshToken
	}
	token, next, expires := s.sessions.newRefreshToken()
	who, err := s.store.Refresh(ctx, userID, hash, next, expires, s.sessions.leeway)
	switch {
	case errors.Is(err, models.ErrReused):
		s.metrics.refreshes.WithLabelValues("reused").Inc()
		s.log.Warn("security event: spent refresh token used again, session revoked", "request_id", call.requestID, "user", who.ID)
		return Session{}, err
	case errors.Is(err, models.ErrRefreshToken):
		s.metrics.refreshes.WithLabelValues("refused").Inc()
		return Session{}, err
	case err != nil:
		s.metrics.refreshes.WithLabelValues("failed").Inc()
		return Session{}, err
	}
	session := s.sessions.issue(who, token)
	s.metrics.refreshes.WithLabelValues("refreshed").Inc()
	s.sessions.setCookies(call.header, &session)
	return session, nil
}
