package cluster

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// becomeAsynchronous has commits wait for no standby. Standbys then wait long for a leader that is silent: they would connect again,
// and get what was to be lost.
func (c *cluster) becomeAsynchronous(t *testing.T) {
	t.Helper()
	c.leader(t).patroniDoes(t, "PATCH", "/config", `{"synchronous_mode": false, "synchronous_mode_strict": false,
		"maximum_lag_on_failover": 104857600, "postgresql": {"parameters": {"wal_receiver_timeout": "10min"}}}`)
	c.asynchronous = true
	for _, n := range c.nodes {
		servicetest.Within(t, time.Minute, n.name+" has the configuration", func() bool {
			var patience string
			return n.read(t, "postgres", "SHOW wal_receiver_timeout", &patience) == nil && patience == "10min"
		})
	}
	c.waitHealthy(t)
}

// stopSending keeps the leader's commits from the standbys from now on, without anybody's notice: it stops the processes that send
// them, at a time at which these have sent everything and wait.
func (n *node) stopSending(t *testing.T) {
	t.Helper()
	var end, sending string
	servicetest.NoError(t, n.read(t, "postgres", "SELECT pg_current_wal_lsn()", &end))
	servicetest.Eventually(t, "both standbys have everything", func() bool {
		err := n.read(t, "postgres", "SELECT coalesce(string_agg(pid::text, ' '), '') FROM pg_stat_replication JOIN pg_stat_activity USING (pid) WHERE replay_lsn >= '"+
			end+"' AND wait_event = 'WalSenderMain'", &sending)
		return err == nil && strings.Count(sending, " ") == 1
	})
	var senders [2]int
	servicetest.Must(fmt.Sscan(sending, &senders[0], &senders[1]))(t)
	for _, pid := range senders {
		syscall.Kill(pid, syscall.SIGSTOP)
	}
	servicetest.Eventually(t, "the senders have stopped", func() bool {
		states := n.processes()
		return states[senders[0]] == "T" && states[senders[1]] == "T"
	})
	n.exec(t, "SELECT count(*) FROM pg_stat_replication") // one that held a lock would keep this waiting
}

// spend uses so many numbers of transactions.
func (n *node) spend(t *testing.T, numbers int) {
	t.Helper()
	n.exec(t, fmt.Sprintf("DO $$ BEGIN FOR i IN 1..%d LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$", numbers))
}

// nextNumber is the number of the next transaction that gets one.
func (n *node) nextNumber(t *testing.T) (number uint64) {
	t.Helper()
	servicetest.NoError(t, n.read(t, "postgres", "SELECT CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint)", &number))
	return number
}

// awaitMarks waits until an instance has begun to keep marks on the node: so long after its promotion it can compare nothing.
func (n *node) awaitMarks(t *testing.T) {
	t.Helper()
	servicetest.Within(t, time.Minute, n.name+" can say what has changed", func() bool {
		var comparable bool
		return n.read(t, "worldevents", "SELECT EXISTS (SELECT 1 FROM incarnation)", &comparable) == nil && comparable
	})
}
