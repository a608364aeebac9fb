package metrics

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"
)

// The charts show an hour: the oldest point goes when one is added.
const (
	HistoryStep   = 15 * time.Second
	historyPoints = int(time.Hour / HistoryStep)
)

// Load has values of a node that charts show beside its metrics.
type Load struct {
	Clients int
	// CPU is percent of one processor, RSS bytes; both are 0 if they are not measured.
	CPU float64
	RSS int64
}

type interval struct {
	before, now *Figures
	load        Load
}

type line struct {
	name string
	of   func(s *interval) float64 // NaN: it is not known
}

// historic are the lines that are kept. The admin interface draws them by these names (admin/src/history.ts).
var historic = []line{
	{"clients", func(s *interval) float64 { return float64(s.load.Clients) }},
	{"cpu", func(s *interval) float64 { return measured(s.load.CPU, s.load.RSS) }},
	{"memory", func(s *interval) float64 { return measured(float64(s.load.RSS), s.load.RSS) }},
	{"sent", rate("transport_messages_sent", "", "")},
	{"received", rate("transport_messages_received", "", "")},
	{"sent_bytes", rate("transport_messages_sent_size", "", "")},
	{"received_bytes", rate("transport_messages_received_size", "", "")},
	{"published", rate("node_messages_sent_count", "type", "publication")},
	{"arrived", rate("node_messages_received_count", "type", "publication")},
	{"median", quantile("node_publish_to_write_seconds", .5)},
	{"slowest", quantile("node_publish_to_write_seconds", .99)},
	{"api", observed("api_command_duration_seconds_histogram")},
	{"commands", observed("client_command_duration_seconds_histogram")},
	{"api_errors", rate("api_command_errors_total", "", "")},
	{"client_errors", rate("client_num_reply_errors", "", "")},
	{"disconnects", rate("client_num_server_disconnects", "", "")},
	{"queued", func(s *interval) float64 { return s.now.sum("client_queued_bytes", "", "") }},
}

type point struct {
	at     int64 // Unix milliseconds
	values []float32
}

// History keeps the charts of the last hour, in some 30 KB. Any goroutine may use it.
type History struct {
	mu     sync.Mutex
	points []point // a ring: the oldest is at next once there are historyPoints
	next   int
	before *Figures
}

// Look adds a point with the changes since the previous call.
func (h *History) Look(now *Figures, load Load) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := interval{before: h.before, now: now, load: load}
	h.before = now
	if s.before == nil || now.Time <= s.before.Time {
		return
	}
	p := point{at: now.Time, values: make([]float32, len(historic))}
	for i, l := range historic {
		p.values[i] = float32(l.of(&s))
	}
	if len(h.points) < historyPoints {
		h.points = append(h.points, p)
		return
	}
	h.points[h.next] = p
	h.next = (h.next + 1) % historyPoints
}

// number has four digits; NaN becomes null.
type number float32

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	f := float64(n)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	text := strconv.FormatFloat(f, 'g', 4, 32)
	if short := strconv.FormatFloat(f, 'f', -1, 32); len(short) < len(text) {
		text = short
	}
	return []byte(text), nil
}

// MarshalJSON returns {"times":[…],"lines":{"clients":[…], …}}: Unix milliseconds, the oldest first, and the values
// then.
func (h *History) MarshalJSON() ([]byte, error) {
	h.mu.Lock()
	ordered := slices.Concat(h.points[h.next:], h.points[:h.next])
	h.mu.Unlock()
	times, lines := make([]int64, len(ordered)), make(map[string][]number, len(historic))
	for i, l := range historic {
		values := make([]number, len(ordered))
		for n := range ordered {
			times[n], values[n] = ordered[n].at, number(ordered[n].values[i])
		}
		lines[l.name] = values
	}
	return json.Marshal(map[string]any{"times": times, "lines": lines})
}

func measured(value float64, rss int64) float64 {
	if rss == 0 {
		return math.NaN()
	}
	return value
}

// sum adds up the samples of a family, with this value of the label unless label is empty.
func (f *Figures) sum(family, label, value string) (total float64) {
	for _, s := range f.Families[family].Samples {
		if label == "" || s.Labels[label] == value {
			total += s.Value
		}
	}
	return total
}

func rate(family, label, value string) func(*interval) float64 {
	return func(s *interval) float64 {
		return s.perSecond(s.now.sum(family, label, value) - s.before.sum(family, label, value))
	}
}

func observed(family string) func(*interval) float64 {
	count := func(f *Figures) (total uint64) {
		for _, s := range f.Families[family].Samples {
			total += s.Count
		}
		return total
	}
	return func(s *interval) float64 { return s.perSecond(float64(count(s.now)) - float64(count(s.before))) }
}

func (s *interval) perSecond(more float64) float64 {
	if more < 0 {
		return math.NaN()
	}
	return more / (float64(s.now.Time-s.before.Time) / 1000)
}

// quantile estimates a quantile of a histogram, as Prometheus does. For a native histogram it returns the mean.
func quantile(family string, q float64) func(*interval) float64 {
	return func(s *interval) float64 {
		var all Sample
		for _, sample := range s.now.Families[family].Samples {
			all.add(sample)
		}
		for _, sample := range s.before.Families[family].Samples {
			if sample.Count > all.Count {
				return math.NaN()
			}
			all.Value -= sample.Value
			all.Count -= sample.Count
			for i := range min(len(all.Buckets), len(sample.Buckets)) {
				all.Buckets[i][1] -= sample.Buckets[i][1]
			}
		}
		return all.quantile(q)
	}
}

func (s *Sample) quantile(q float64) float64 {
	if s.Count == 0 {
		return math.NaN()
	}
	if len(s.Buckets) == 0 {
		return s.Value / float64(s.Count)
	}
	rank, lower, below := q*float64(s.Count), 0.0, 0.0
	for _, b := range s.Buckets {
		bound, count := b[0], b[1]
		if count >= rank && count > below {
			return lower + (bound-lower)*(rank-below)/(count-below)
		}
		lower, below = bound, count
	}
	return lower // beyond the last bound
}
