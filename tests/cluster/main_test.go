//go:build cluster

// Package cluster runs two instances of the service over PostgreSQL as operators do for high availability: three nodes, each
// with etcd, Patroni and PostgreSQL, in synchronous mode, and HAProxy. It breaks the cluster under load, and prints for how
// long no write succeeded, and how many acknowledged writes were lost. It takes minutes and needs tools: make test-cluster.
package cluster

import (
	"os"
	"os/exec"
	"testing"

	"worldevents/tests/servicetest"
)

func TestMain(m *testing.M) { os.Exit(servicetest.Main(m)) }

// need returns the path of a tool. Where it is missing the test is skipped loudly, or fails when CI=true.
func need(t *testing.T, tool string) string {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + tool) // not in everybody's PATH
	}
	if err != nil {
		servicetest.Missing(t, "%s is not installed", tool)
	}
	return path
}
