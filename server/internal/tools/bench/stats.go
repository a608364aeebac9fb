package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Times above slowest count as slowest.
const slowest = 10 * time.Minute

// histogram keeps times in microseconds, to three digits.
type histogram struct{ h *hdrhistogram.Histogram }

func newHistogram() histogram {
	return histogram{hdrhistogram.New(1, slowest.Microseconds(), 3)}
}

func (h histogram) record(d time.Duration) {
	_ = h.h.RecordValue(min(max(d, time.Microsecond), slowest).Microseconds()) // within its bounds
}

// Latency describes a distribution of times, in microseconds.
type Latency struct {
	Count int64   `json:"count"`
	Min   int64   `json:"min"`
	Mean  float64 `json:"mean"`
	P50   int64   `json:"p50"`
	P90   int64   `json:"p90"`
	P99   int64   `json:"p99"`
	P999  int64   `json:"p99_9"`
	Max   int64   `json:"max"`
}

func (h histogram) latency() *Latency {
	if h.h.TotalCount() == 0 {
		return nil
	}
	return &Latency{
		Count: h.h.TotalCount(), Min: h.h.Min(), Mean: float64(int64(h.h.Mean()*10)) / 10, Max: h.h.Max(),
		P50: h.h.ValueAtQuantile(50), P90: h.h.ValueAtQuantile(90),
		P99: h.h.ValueAtQuantile(99), P999: h.h.ValueAtQuantile(99.9),
	}
}

// shared is a histogram for several goroutines that record rarely.
type shared struct {
	mu sync.Mutex
	h  histogram
}

func (s *shared) record(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.record(d)
}

func (s *shared) latency() *Latency {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.h.latency()
}

// stripe counts the deliveries of some subscribers, and guards their ledgers. With several stripes, connections rarely
// wait for each other.
type stripe struct {
	mu        sync.Mutex
	tally     tally
	last      int64 // nanoseconds since the run began, of the latest delivery
	latencies histogram
}

const stripes = 8

type tally struct {
	received   uint64 // each once
	duplicated uint64
	reordered  uint64 // of the received ones
	corrupt    uint64 // with contents that were not published in this channel
	foreign    uint64 // of other publishers; not a fault
}

func (t *tally) add(o tally) {
	t.received += o.received
	t.duplicated += o.duplicated
	t.reordered += o.reordered
	t.corrupt += o.corrupt
	t.foreign += o.foreign
}
