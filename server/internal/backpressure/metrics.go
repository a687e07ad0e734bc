package backpressure

import "github.com/prometheus/client_golang/prometheus"

// Collectors are the metrics.
func (c *Class) Collectors() []prometheus.Collector {
	stalled := func(name, help string) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(c.Stalled()) })
	}
	return []prometheus.Collector{
		stalled("worldevents_stalled_responses", "Responses whose clients read slowly."),
		stalled("worldevents_waiting_responses", "Former name of worldevents_stalled_responses, for one more version."),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "worldevents_aborted_responses_total",
			Help: "Responses that were aborted since too many were stalled.",
		}, func() float64 { return float64(c.abortedSoFar()) }),
	}
}
