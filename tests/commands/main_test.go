// Package commands proves what the commands of the program do, beside a service and alone.
package commands

import (
	"os"
	"testing"

	"worldevents/tests/servicetest"
)

func TestMain(m *testing.M) { os.Exit(servicetest.Main(m)) }
