package servicetest

import "testing"

const App = "https://app.example"

// ForPages starts a service that allows two origins and lives at its own public address.
func ForPages(t *testing.T, changes ...Option) *Service {
	return New(t, append([]Option{func(o *Options) {
		o.AllowedOrigins = []string{App, "http://localhost:5173"}
	}}, changes...)...)
}
