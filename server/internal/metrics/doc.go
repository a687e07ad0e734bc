// Package metrics makes metrics for several packages, which package observe registers. A gauge is read from the service on each scrape, and
// counters start from 0 for each value of their label.
package metrics
