package cluster

import (
	"context"
	"net/http"
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
	r, err := http.NewRequest("PATCH", "http://"+c.leader(t).host+":8008/config", strings.NewReader(`{"synchronous_mode": false, "synchronous_mode_strict": false,
		"maximum_lag_on_failover": 104857600, "postgresql": {"parameters": {"wal_receiver_timeout": "10min"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Transport: plain, Timeout: time.Minute}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 200 {
		t.Fatalf("configuration: %d", res.StatusCode)
	}
	c.asynchronous = true
	for _, n := range c.nodes {
		servicetest.Eventually(t, time.Minute, n.name+" has the configuration", func() bool {
			db := n.open(t, "postgres")
			defer db.Close()
			var patience string
			return db.QueryRow("SHOW wal_receiver_timeout").Scan(&patience) == nil && patience == "10min"
		})
	}
	c.waitHealthy(t)
}

// stopSending keeps the leader's commits from the standbys from now on, without anybody's notice: it stops the processes that send
// them, at a time at which these have sent everything and wait.
func (n *node) stopSending(t *testing.T) {
	t.Helper()
	db := n.open(t, "postgres")
	defer db.Close()
	var end string
	if err := db.QueryRow("SELECT pg_current_wal_lsn()").Scan(&end); err != nil {
		t.Fatal(err)
	}
	var senders []int
	servicetest.Eventually(t, 30*time.Second, "both standbys have everything", func() bool {
		senders = nil
		rows, err := db.Query("SELECT pid FROM pg_stat_replication JOIN pg_stat_activity USING (pid) WHERE replay_lsn >= CAST($1 AS pg_lsn) AND wait_event = 'WalSenderMain'", end)
		if err != nil {
			return false
		}
		defer rows.Close()
		for rows.Next() {
			var pid int
			if rows.Scan(&pid) == nil {
				senders = append(senders, pid)
			}
		}
		return len(senders) == 2
	})
	for _, pid := range senders {
		syscall.Kill(pid, syscall.SIGSTOP)
	}
	servicetest.Eventually(t, 10*time.Second, "the senders have stopped", func() bool {
		states := n.processes()
		return states[senders[0]] == "T" && states[senders[1]] == "T"
	})
	// One that held a lock would keep this waiting.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := db.ExecContext(ctx, "SELECT count(*) FROM pg_stat_replication"); err != nil {
		t.Fatal(err)
	}
}

// spend uses so many numbers of transactions.
func (n *node) spend(t *testing.T, numbers int) {
	t.Helper()
	db := n.open(t, "postgres")
	defer db.Close()
	for range numbers {
		if _, err := db.Exec("SELECT pg_current_xact_id()"); err != nil {
			t.Fatal(err)
		}
	}
}

// nextNumber is the number of the next transaction that gets one.
func (n *node) nextNumber(t *testing.T) (number uint64) {
	t.Helper()
	db := n.open(t, "postgres")
	defer db.Close()
	if err := db.QueryRow("SELECT CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint)").Scan(&number); err != nil {
		t.Fatal(err)
	}
	return number
}

// awaitMarks waits until an instance has begun to keep marks on the node: so long after its promotion it can compare nothing.
func (n *node) awaitMarks(t *testing.T) {
	t.Helper()
	db := n.open(t, "worldevents")
	defer db.Close()
	servicetest.Eventually(t, time.Minute, n.name+" can say what has changed", func() bool {
		var comparable bool
		return db.QueryRow("SELECT EXISTS (SELECT 1 FROM incarnation)").Scan(&comparable) == nil && comparable
	})
}
