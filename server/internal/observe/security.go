package observe

import (
	"context"
	"errors"

	"worldevents/models"
)

// Security events are what an operator may want an alarm for, as they are called in the log and in metrics.
const (
	SignedIn  = "signed_in"  // a session has begun
	Refused   = "refused"    // a sign-in failed
	SignedOut = "signed_out" // a user ended a session
	Revoked   = "revoked"    // a session was ended from another one, or by the operator
	Reused    = "reused"     // a spent refresh token came back after the leeway, which revoked its session
)

// SecurityEvent logs and counts something that happened to a session. Cause is human-readable. What a command of the
// operator does leaves an audit line of its own.
func (o *Observer) SecurityEvent(ctx context.Context, event string, who models.Caller, cause string) {
	req := FromContext(ctx)
	if req == nil {
		return
	}
	o.securityEvents.WithLabelValues(event).Inc()
	attributes := []any{"event", event}
	if who != (models.Caller{}) {
		attributes = append(attributes, "user", who.UserID, "session", who.SessionID)
	}
	if cause != "" {
		attributes = append(attributes, "cause", cause)
	}
	attributes = append(attributes, "client", req.Client(), "request_id", req.ID)
	o.Log.Warn("security event", attributes...) // which a journal can keep longer than lines of requests
}

// RefreshRefused counts a refresh that was refused, and logs why. Anybody can send refresh tokens, so its line has a place among
// those of requests.
func (o *Observer) RefreshRefused(ctx context.Context, err error) {
	o.CountRefresh(RefreshRefused)
	attributes := []any{"cause", "unknown"}
	if refusal, ok := errors.AsType[*models.RefreshRefusal](err); ok {
		attributes = []any{"user", refusal.UserID, "session", refusal.SessionID, "cause", refusal.Cause}
	}
	req := FromContext(ctx)
	o.AccessLog.Info("refresh refused", append(attributes, "client", req.Client(), "request_id", req.ID)...)
}

// AuditLine logs a change that a user has made on a page. Its form and its actions are those of the lines that commands leave, so that
// replay-audit repeats them after a restore.
func (o *Observer) AuditLine(ctx context.Context, action string, by models.Caller, attributes ...any) {
	req := FromContext(ctx)
	line := append([]any{"action", action, "user", by.UserID, "session", by.SessionID}, attributes...)
	o.Audit.Info("audit", append(line, "client", req.Client(), "request_id", req.ID)...)
}
