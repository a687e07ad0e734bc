package observe

import (
	"context"
	"errors"

	"worldevents/models"
)

// Security events, for alarms, by their names in the log and in metrics.
const (
	SignedIn  = "signed_in"  // a session has begun
	Refused   = "refused"    // a sign-in failed
	SignedOut = "signed_out" // a user ended a session
	Revoked   = "revoked"    // a session was ended from another one, or by the operator
	Reused    = "reused"     // a spent refresh token came back after the leeway, which revoked its session
)

// SecurityEvent logs and counts an event of a session; cause is for people. For a command it does nothing: that leaves an audit line.
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
	o.Log.Warn("security event", attributes...) // a journal can keep warnings longer than requests
}

// RefreshRefused counts and logs a refused refresh, in the access log: anybody can send refresh tokens.
func (o *Observer) RefreshRefused(ctx context.Context, err error) {
	o.CountRefresh(RefreshRefused)
	attributes := []any{"cause", "unknown"}
	if refusal, ok := errors.AsType[*models.RefreshRefusal](err); ok {
		attributes = []any{"user", refusal.UserID, "session", refusal.SessionID, "cause", refusal.Cause}
	}
	req := FromContext(ctx)
	o.AccessLog.Info("refresh refused", append(attributes, "client", req.Client(), "request_id", req.ID)...)
}

// AuditLine logs a user's change on a page in the format of commands, so that replay-audit repeats it after a restore.
func (o *Observer) AuditLine(ctx context.Context, action string, by models.Caller, attributes ...any) {
	req := FromContext(ctx)
	line := append([]any{"action", action, "user", by.UserID, "session", by.SessionID}, attributes...)
	o.Audit.Info("audit", append(line, "client", req.Client(), "request_id", req.ID)...)
}
