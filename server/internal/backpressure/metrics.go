package backpressure

import (
	"github.com/prometheus/client_golang/prometheus"

	"worldevents/server/internal/metrics"
)

// Collectors are the metrics.
func (c *Class) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		metrics.Gauge("worldevents_stalled_responses", "Responses whose clients read slowly.", c.Stalled),
		metrics.Counter("worldevents_aborted_responses_total", "Responses that were aborted since too many were stalled.", c.aborted.Load),
	}
}
