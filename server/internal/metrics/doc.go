// Package metrics makes the metrics that several packages publish in the same way. It owns how a metric begins: one that is read from
// the service is read when somebody asks for it, and one that counts is there from 0 on for every value that its label can have.
//
// It never registers a metric: package observe does, which has the registry.
package metrics
