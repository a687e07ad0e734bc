// Package tests proves over HTTP what the service promises, on SQLite and on PostgreSQL.
package tests

import (
	"os"
	"testing"

	"worldevents/tests/servicetest"
)

func TestMain(m *testing.M) { os.Exit(servicetest.Main(m)) }
