package session

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"worldevents/models"
)

var (
	// ErrNoToken is returned where there is no token.
	ErrNoToken = errors.New("no token")
	// ErrExpired is returned by Verify for a JWT whose only fault is its age.
	ErrExpired = errors.New("token has expired")
	// ErrInvalid is returned for a JWT with any other fault, expired or not, and by Cookies for values that
	// differ.
	ErrInvalid = errors.New("invalid token")
)

// Options of a Manager.
type Options struct {
	// PrivateKeys and PublicKeys verify JWTs by EdDSA, and Secrets by HS256. The first of the private keys signs, or the first
	// secret if there is none.
	PrivateKeys []ed25519.PrivateKey
	PublicKeys  []ed25519.PublicKey
	Secrets     [][]byte
	// Issuer and Audience are written into JWTs and required of them, unless empty.
	Issuer, Audience string
	// TokenTTL is the lifetime of a JWT; 0 means models.TokenTTL, which it must not exceed.
	TokenTTL time.Duration
	// RefreshTTL is the lifetime of a refresh token, and of both cookies.
	RefreshTTL time.Duration
	// Now is the clock.
	Now func() time.Time

	// Host is the host of the service's public address. It tells which domains its cookies can have had.
	Host string
	// Development makes cookies for plain HTTP.
	Development bool
	// CookiePath is the Path of both cookies.
	CookiePath string
	// CookieDomain is their Domain; empty keeps them host-only.
	CookieDomain string
	// CookiePartitioned adds the attribute Partitioned (CHIPS).
	CookiePartitioned bool
}

// Manager issues and verifies tokens, and writes their cookies. Its methods may be called concurrently.
type Manager struct {
	keyring atomic.Pointer[keyring]
	setting sync.Mutex // held while keys are replaced
	options Options
	cookie  func(maxAge int) *http.Cookie // without a value
	// These follow the value of either cookie, to set it for as long as a refresh token lives and to clear it.
	setAttributes, clearAttributes string
	staleAttributes                []string // to expire either cookie in scopes of earlier configurations
}

// Session is a user who is signed in, and the tokens that prove it.
type Session struct {
	UserID string `json:"userId"`
	// SessionID is "" in a JWT of an issuer that knows no sessions.
	SessionID string `json:"-"`
	Username  string `json:"username"`
	Token     string `json:"token"`
	// RefreshToken is known when it is issued; Verify leaves it empty.
	RefreshToken string `json:"refreshToken"`
	// Expires is when the JWT does.
	Expires time.Time `json:"expires"`
	// ends is when the session does, known when it is issued; zero means that it need not.
	ends time.Time
}

// Caller returns whom the JWT speaks for. It returns ErrInvalid if its subject or its session cannot be one of ours.
func (s Session) Caller() (caller models.Caller, err error) {
	if caller.UserID, err = models.ParseID(s.UserID); err == nil && s.SessionID != "" {
		caller.SessionID, err = models.ParseID(s.SessionID)
	}
	if err != nil {
		return models.Caller{}, ErrInvalid
	}
	return caller, nil
}

// New returns a Manager.
func New(o Options) *Manager {
	live := liveScope(o)
	o.TokenTTL = cmp.Or(o.TokenTTL, models.TokenTTL)
	m := &Manager{
		options:         o,
		cookie:          func(maxAge int) *http.Cookie { return live.cookie(o.Development, maxAge) },
		setAttributes:   attributes(live.cookie(o.Development, int(o.RefreshTTL/time.Second))),
		clearAttributes: attributes(live.cookie(o.Development, -1)),
		staleAttributes: staleAttributes(o),
	}
	m.SetSecrets(o.Secrets)
	return m
}
