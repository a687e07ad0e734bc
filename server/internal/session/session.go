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
	// ErrNoToken means that there is no token.
	ErrNoToken = errors.New("no token")
	// ErrExpired means that the only fault of a JWT is its age.
	ErrExpired = errors.New("token has expired")
	// ErrInvalid means another fault of a JWT, expired or not, or cookies with different values.
	ErrInvalid = errors.New("invalid token")
)

// Options of a Manager, as in package server.
type Options struct {
	PrivateKeys      []ed25519.PrivateKey
	PublicKeys       []ed25519.PublicKey
	Secrets          [][]byte // Keys
	Issuer, Audience string
	TokenTTL         time.Duration // JWTTTL
	// RefreshTTL is the lifetime of a refresh token, and of both cookies.
	RefreshTTL time.Duration
	Now        func() time.Time

	Host              string // of the public address
	Development       bool
	CookiePath        string
	CookieDomain      string
	CookiePartitioned bool
}
type Manager struct {
	keyring atomic.Pointer[keyring]
	setting sync.Mutex // replaces keys
	options Options
	cookie  func(maxAge int) *http.Cookie // without a value
	// Attributes of either cookie.
	setAttributes, clearAttributes string
	staleAttributes                []string // for scopes of earlier configurations
}

// Session is a signed-in user with both tokens.
type Session struct {
	UserID       string    `json:"userId"`
	SessionID    string    `json:"-"` // "" in a JWT of an issuer without sessions
	Username     string    `json:"username"`
	Token        string    `json:"token"`
	RefreshToken string    `json:"refreshToken"` // only when issued
	Expires      time.Time `json:"expires"`      // of the JWT
	ends         time.Time // of the session, when issued; zero means never
}

// Caller returns the user and session of the JWT. It returns ErrInvalid for foreign ids.
func (s Session) Caller() (caller models.Caller, err error) {
	if caller.UserID, err = models.ParseID(s.UserID); err == nil && s.SessionID != "" {
		caller.SessionID, err = models.ParseID(s.SessionID)
	}
	if err != nil {
		return models.Caller{}, ErrInvalid
	}
	return caller, nil
}

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
