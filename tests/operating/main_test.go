// Package operating proves what operators rely on: settings, secrets, TLS, logs, metrics, and databases that come and go.
package operating

import (
	"os"
	"testing"

	"worldevents/tests/servicetest"
)

func TestMain(m *testing.M) { os.Exit(servicetest.Main(m)) }
