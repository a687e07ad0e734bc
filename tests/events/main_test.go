// Package events proves over HTTP what the service promises about events, RSVPs and lists, those that wait for news included.
package events

import (
	"os"
	"testing"

	"worldevents/tests/servicetest"
)

func TestMain(m *testing.M) { os.Exit(servicetest.Main(m)) }
