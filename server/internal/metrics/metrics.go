package metrics

import "github.com/prometheus/client_golang/prometheus"

type number interface {
	~int | ~int64 | ~uint64 | ~float64
}

// Gauge is read on each scrape.
func Gauge[N number](name, help string, read func() N) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(read()) })
}

// Counter is Gauge for what only grows.
func Counter[N number](name, help string, read func() N) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(read()) })
}

// Counters is a vector of counters by one label, from 0 on for each of its values.
func Counters[Value ~string](name, help, label string, values ...Value) *prometheus.CounterVec {
	vector := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, value := range values {
		vector.WithLabelValues(string(value))
	}
	return vector
}
