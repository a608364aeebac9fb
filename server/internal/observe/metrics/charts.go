package metrics

import (
	"cmp"
	"slices"
)

// charted are the families of the charts of the admin interface, with the label that separates lines. Other labels are
// added up, so the size does not grow with namespaces, methods or clients.
var charted = map[string]string{
	"node_messages_sent_count":                  "type",
	"node_messages_received_count":              "type",
	"node_publish_to_write_seconds":             "",
	"node_clock_skew_seconds":                   "",
	"node_memory_limit_bytes":                   "",
	"transport_messages_sent":                   "",
	"transport_messages_received":               "",
	"transport_messages_sent_size":              "",
	"transport_messages_received_size":          "",
	"api_command_duration_seconds_histogram":    "",
	"api_command_errors_total":                  "",
	"client_command_duration_seconds_histogram": "",
	"client_num_reply_errors":                   "",
	"client_num_server_disconnects":             "",
	"client_queued_clients":                     "",
	"client_queued_bytes":                       "",
	"client_queue_oldest_seconds":               "",
}

// Charted is Figures for the charts of the admin interface, added up over most labels; nil if r is nil.
func (r *Registry) Charted() any {
	if r == nil {
		return nil
	}
	all := r.Figures()
	f := &Figures{Time: all.Time, Families: make(map[string]Family, len(charted))}
	for name, label := range charted {
		if family, ok := all.Families[name]; ok {
			f.Families[name] = Family{Type: family.Type, Samples: added(slices.DeleteFunc(slices.Clone(family.Samples), ofOperators), label)}
		}
	}
	return f
}

// ofOperators: the charts leave out commands of the admin interface, because they show the work of the application.
func ofOperators(s Sample) bool { return s.Labels["protocol"] == OperatorProtocol }

func added(samples []Sample, label string) []Sample {
	var sums []Sample
	for _, s := range samples {
		value := s.Labels[label]
		i := slices.IndexFunc(sums, func(sum Sample) bool { return sum.Labels[label] == value })
		if i < 0 {
			sum := Sample{}
			if value != "" {
				sum.Labels = map[string]string{label: value}
			}
			i, sums = len(sums), append(sums, sum)
		}
		sums[i].add(s)
	}
	slices.SortFunc(sums, func(a, b Sample) int { return cmp.Compare(a.Labels[label], b.Labels[label]) })
	return sums
}

// add adds a sample, whose histogram has the same bounds, or none.
func (s *Sample) add(other Sample) {
	s.Value += other.Value
	s.Count += other.Count
	if s.Buckets == nil {
		s.Buckets = slices.Clone(other.Buckets)
		return
	}
	for i := range min(len(s.Buckets), len(other.Buckets)) {
		s.Buckets[i][1] += other.Buckets[i][1]
	}
}
