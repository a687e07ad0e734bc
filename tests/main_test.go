// Package tests proves over HTTP what the service promises, on SQLite and on PostgreSQL.
package tests

import (
	"os"
	"testing"

	"worldevents/tests/service"
)

func TestMain(m *testing.M) { os.Exit(service.Main(m)) }
