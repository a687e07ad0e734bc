// Package runbooks executes the runbooks of docs/operate from their own text, and has each of their steps fail once.
package runbooks

import (
	"os"
	"testing"

	"worldevents/tests/servicetest"
)

func TestMain(m *testing.M) { os.Exit(servicetest.MainLong(m)) }
