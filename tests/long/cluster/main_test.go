// Package cluster runs two instances of the service over PostgreSQL as operators do for high availability: three nodes, each
// with etcd, Patroni and PostgreSQL, in synchronous mode, and HAProxy. It breaks the cluster under load, and prints for how
// long no write succeeded, and how many acknowledged writes were lost. In asynchronous mode it has writes lost, and looks for
// lists that still show them. It takes minutes and needs tools: make test-cluster.
package cluster

import (
	"os"
	"testing"

	"worldevents/tests/servicetest"
)

func TestMain(m *testing.M) { os.Exit(servicetest.MainLong(m)) }
