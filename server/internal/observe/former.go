package observe

import (
	"cmp"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// formerNames are the metrics that can be asked for by their former name as well, for one more version.
var formerNames = map[string]string{
	"worldevents_stalled_responses":      "worldevents_waiting_responses",
	"worldevents_list_watches":           "worldevents_list_waits",
	"worldevents_list_watches_total":     "worldevents_list_waits_total",
	"worldevents_list_watch_lag_seconds": "worldevents_list_wait_lag_seconds",
}

// gather returns all metrics, in the order of their names.
func (o *Observer) gather() ([]*dto.MetricFamily, error) {
	families, err := o.registry.Gather()
	for _, family := range families {
		if former, ok := formerNames[family.GetName()]; ok {
			help := "Former name of " + family.GetName() + ", for one more version."
			families = append(families, &dto.MetricFamily{Name: &former, Help: &help, Type: family.Type, Metric: family.Metric})
		}
	}
	slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return families, err
}
