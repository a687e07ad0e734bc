// Package sessions proves over HTTP what the service promises about sessions: JWTs, refresh tokens, cookies, signing in and out.
package sessions

import (
	"os"
	"testing"

	"worldevents/tests/servicetest"
)

func TestMain(m *testing.M) { os.Exit(servicetest.Main(m)) }
