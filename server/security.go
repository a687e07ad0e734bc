package server

import (
	"context"
	"net/netip"

	"worldevents/models"
)

// securityEvents are what an operator may want an alarm for, as they are called in the log and in metrics.
const (
	signedIn  = "signed_in"  // a session has begun
	refused   = "refused"    // a sign-in failed
	signedOut = "signed_out" // a user ended a session
	revoked   = "revoked"    // a session was ended from another one, or by the operator
	reused    = "reused"     // a spent refresh token came back after the leeway, which revoked its session
)

// securityEvent logs and counts something that happened to a session. Cause is human-readable. What a command of the
// operator does leaves an audit line of its own.
func (s *Server) securityEvent(ctx context.Context, event string, who models.Caller, cause string) {
	req := requestFrom(ctx)
	if req == nil {
		return
	}
	s.metrics.securityEvents.WithLabelValues(event).Inc()
	attributes := []any{"event", event}
	if who != (models.Caller{}) {
		attributes = append(attributes, "user", who.UserID, "session", who.SessionID)
	}
	if cause != "" {
		attributes = append(attributes, "cause", cause)
	}
	attributes = append(attributes, "client", s.client(req), "request_id", req.requestID)
	s.log.Warn("security event", attributes...) // which a journal can keep longer than lines of requests
}

// origin is what a user will know a session by: the device, and the network of the client, no more of its address than
// that (/24 of IPv4, /48 of IPv6).
func (s *Server) origin(ctx context.Context) (device, network string) {
	req := requestFrom(ctx)
	if req == nil {
		return "command line", ""
	}
	return deviceLabel(req.request.UserAgent()), networkOf(s.client(req))
}

// networkOf returns the network of an address, or "" for a text that is none.
func networkOf(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	bits := 48
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		bits = 24
	}
	prefix, err := ip.Prefix(bits)
	if err != nil {
		return ""
	}
	return prefix.String()
}
