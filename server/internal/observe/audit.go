package observe

import (
	"context"

	"worldevents/models"
)

// AuditLine logs a change that a user has made on a page. Its form and its actions are those of the lines that commands leave, so that
// replay-audit repeats them after a restore.
func (o *Observer) AuditLine(ctx context.Context, action string, by models.Caller, attributes ...any) {
	req := FromContext(ctx)
	line := append([]any{"action", action, "user", by.UserID, "session", by.SessionID}, attributes...)
	o.Audit.Info("audit", append(line, "client", req.Client(), "request_id", req.ID)...)
}
