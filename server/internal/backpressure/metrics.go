package backpressure

import "github.com/prometheus/client_golang/prometheus"

// Collectors are the metrics.
func (c *Class) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "worldevents_waiting_responses",
			Help: "Responses that wait for clients who read slowly.",
		}, func() float64 { return float64(c.Stalled()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "worldevents_aborted_responses_total",
			Help: "Responses that were aborted since too many waited for their clients.",
		}, func() float64 { return float64(c.Aborted()) }),
	}
}
