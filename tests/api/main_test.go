// Package api proves over HTTP what holds for all operations: paths, errors, limits, origins, and the documents.
package api

import (
	"os"
	"testing"

	"worldevents/tests/servicetest"
)

func TestMain(m *testing.M) { os.Exit(servicetest.Main(m)) }
