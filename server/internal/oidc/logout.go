package oidc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
)

// ErrLogout means that a logout token is not from the provider, not for this service, or not current.
var ErrLogout = errors.New("not a logout token")

const (
	// logoutEvent is the event of logout tokens (OpenID Connect Back-Channel Logout 1.0 section 2.4).
	logoutEvent = "http://schemas.openid.net/event/backchannel-logout"
	// maxLogoutAge bounds the age of a logout token, and the lead of the provider's clock.
	maxLogoutAge = 2 * time.Minute
)

// Logout is an ended session of the provider, or with an empty SID all of the subject's.
type Logout struct {
	Issuer, Subject, SID string
	// IssuedAt is the time of the token, to the second. Without a SID later sessions have not ended.
	IssuedAt time.Time
}

// VerifyLogout verifies a logout token (OpenID Connect Back-Channel Logout 1.0 section 2.6). client is the address that shares the places.
// It returns ErrLogout, which is final for a provider, and ErrBusy while the token cannot be judged.
func (p *Provider) VerifyLogout(ctx context.Context, client, token string) (Logout, error) {
	if token == "" {
		return Logout{}, ErrLogout // without a request to the provider
	}
	ctx, cancel := context.WithTimeout(ctx, 4*p.config.Timeout)
	defer cancel()
	m, err := p.discover(ctx, client)
	if err != nil {
		return Logout{}, fmt.Errorf("%w: %v", ErrBusy, err)
	}
	c, err := m.keys.verify(ctx, client, token)
	if errors.Is(err, errNotJudged) {
		return Logout{}, fmt.Errorf("%w: %v", ErrBusy, err)
	}
	if err == nil {
		err = c.checkLogout(p.config.Issuer, p.config.ClientID, p.now())
	}
	if err != nil {
		return Logout{}, fmt.Errorf("%w: %.200q", ErrLogout, err.Error())
	}
	return Logout{p.config.Issuer, c.text("sub"), c.text("sid"), c.time("iat")}, nil
}

// checkLogout returns an error unless the claims of a logout token are current, and from issuer for client.
func (c claims) checkLogout(issuer, client string, now time.Time) error {
	var events map[string]map[string]any
	_, hasNonce := c["nonce"]
	_, hasSub := c["sub"]
	_, hasSID := c["sid"]
	parties := c.checkParties(issuer, client)
	switch issued := c.time("iat"); {
	case parties != nil:
		return parties
	case !now.Before(c.time("exp")):
		return errors.New("expired")
	case issued.Before(now.Add(-maxLogoutAge)) || issued.After(now.Add(maxLogoutAge)):
		return fmt.Errorf("not issued within %v", maxLogoutAge)
	case json.Unmarshal(c["events"], &events) != nil || events[logoutEvent] == nil:
		return errors.New("about another event")
	case hasNonce: // an ID token, which browsers have
		return errors.New("has a nonce")
	case !hasSub && !hasSID || hasSub && !validSubject(c.text("sub")) || hasSID && !validSubject(c.text("sid")):
		return errors.New("names nobody")
	}
	return nil
}
