package eventlist

import (
	"github.com/prometheus/client_golang/prometheus"

	"worldevents/server/internal/metrics"
)

// way is a label of metrics: how a response came about.
type way string

const (
	wayRead            way = "read"
	wayShared          way = "shared"
	wayCached          way = "cached"
	wayUnchangedRead   way = "unchanged_read"
	wayUnchangedCached way = "unchanged_cached"
)

func newWays() *prometheus.CounterVec {
	return metrics.Counters("worldevents_list_responses_total",
		"Responses that are lists, by how: read (from the database), shared (of a reading for several requests), cached (after asking only whether its world has changed), unchanged_read, unchanged_cached (304, likewise).",
		"how", wayRead, wayShared, wayCached, wayUnchangedRead, wayUnchangedCached)
}

// Collectors are the metrics.
func (l *Lists) Collectors() []prometheus.Collector {
	return []prometheus.Collector{l.ways, l.readings, l.long.total,
		metrics.Gauge("worldevents_list_cache_bytes", "Bytes of lists that are kept for whoever asks next, at most LIST_CACHE.", l.cache.bytes)}
}

func (l *Lists) count(how way) { l.ways.WithLabelValues(string(how)).Inc() }
