package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// shapes are one with classic buckets and a summary, and a native one.
func shapes() (classic, native *shape) {
	m, n := New(Config{}), New(Config{NativeHistograms: true})
	return m.times("x", "y", "Help", commandBuckets), n.times("x", "y", "Help", commandBuckets)
}

// exported returns what a distribution sends.
func exported(t *testing.T, d *distribution, s *shape, now time.Duration) (histogram *dto.Histogram, summary *dto.Summary) {
	t.Helper()
	ch := make(chan prometheus.Metric, 2)
	d.export(ch, s, now)
	close(ch)
	for m := range ch {
		var out dto.Metric
		if err := m.Write(&out); err != nil {
			t.Fatal(err)
		}
		if out.Histogram != nil {
			histogram = out.Histogram
		} else {
			summary = out.Summary
		}
	}
	return histogram, summary
}

// samples are times from nanoseconds to days, bounds of buckets, and some that should not be.
func samples() []float64 {
	r := rand.New(rand.NewPCG(1, 2))
	list := []float64{0, -1, 1, 2, 0.5, math.Exp2(-30), 131072, 1 << 20, math.SmallestNonzeroFloat64}
	list = append(list, commandBuckets...)
	for range 5000 {
		list = append(list, math.Exp2(r.Float64()*20-15))
	}
	return list
}

// TestHistograms compares histograms with those of the Prometheus library.
func TestHistograms(t *testing.T) {
	classic, native := shapes()
	for name, s := range map[string]*shape{"classic": classic, "native": native} {
		opts := prometheus.HistogramOpts{Name: "x", Buckets: s.buckets}
		if s == native {
			opts.NativeHistogramBucketFactor, opts.NativeHistogramMaxBucketNumber = 1.1, 200
			opts.NativeHistogramZeroThreshold = math.Exp2(lowest)
		}
		oracle := prometheus.NewHistogram(opts)
		var d, other distribution
		for i, v := range samples() {
			if s == native && (v < 0 || v > 1<<highest) {
				continue // no time
			}
			oracle.Observe(v)
			if i%2 == 0 {
				d.observe(s, v, 1, 0)
			} else {
				other.observe(s, v, 1, 0)
			}
		}
		d.add(&other, 0)
		got, _ := exported(t, &d, s, 0)
		var want dto.Metric
		if err := oracle.Write(&want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(counts(want.Histogram), counts(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if sum := want.Histogram.GetSampleSum(); math.Abs(sum-got.GetSampleSum()) > sum*1e-9 {
			t.Errorf("%s: sum %g, want %g", name, got.GetSampleSum(), sum)
		}
	}
}

// counts are the numbers of values by their buckets' bounds or keys.
func counts(h *dto.Histogram) map[float64]uint64 {
	m := map[float64]uint64{-1: h.GetSampleCount(), -2: h.GetZeroCount(), -3: uint64(h.GetSchema())}
	for _, b := range h.Bucket {
		m[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	key, n, i := 0, int64(0), 0
	for _, span := range h.PositiveSpan {
		key += int(span.GetOffset())
		for range span.GetLength() {
			n += h.PositiveDelta[i]
			if i++; n > 0 {
				m[1e6+float64(key)] = uint64(n)
			}
			key++
		}
	}
	return m
}

// TestWidest: values over the whole range do not make more than 200 buckets.
func TestWidest(t *testing.T) {
	_, native := shapes()
	var d distribution
	for i := range len(buckets{}) {
		d.observe(native, math.Exp2(float64(i)/perOctave+lowest), 1, 0)
	}
	h, _ := exported(t, &d, native, 0)
	if n := len(counts(h)) - 3; n > mostBuckets || n < mostBuckets/2 || h.GetSchema() != schema-1 {
		t.Errorf("%d buckets of schema %d", n, h.GetSchema())
	}
	if got := h.GetSampleCount(); got != uint64(len(buckets{})) {
		t.Errorf("%d values", got)
	}
}

// TestQuantiles: they are within 4.5% of the values themselves.
func TestQuantiles(t *testing.T) {
	s, _ := shapes()
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 2, 10, 1000, 20000} {
		var d distribution
		var list []float64
		for range n {
			v := math.Exp2(r.NormFloat64()*3 - 10)
			list = append(list, v)
			d.observe(s, v, 1, 0)
		}
		slices.Sort(list)
		_, summary := exported(t, &d, s, 0)
		for _, q := range summary.Quantile {
			want := list[int(math.Ceil(q.GetQuantile()*float64(n)))-1]
			if got := q.GetValue(); math.Abs(got/want-1) > 0.045 {
				t.Errorf("%d values: %g is %g, want %g", n, q.GetQuantile(), got, want)
			}
		}
	}
}

// TestLastTenMinutes: quantiles forget what is older, sum and count do not.
func TestLastTenMinutes(t *testing.T) {
	s, _ := shapes()
	var d distribution
	d.observe(s, 8, 3, 0)
	median := func(now time.Duration) float64 {
		t.Helper()
		var all distribution
		all.add(&d, now)
		_, summary := exported(t, &all, s, now)
		if n := summary.GetSampleCount(); n != d.count {
			t.Errorf("%d values, want %d", n, d.count)
		}
		return math.Round(summary.Quantile[0].GetValue())
	}
	for _, at := range []time.Duration{0, 5 * time.Minute, 9*time.Minute + 59*time.Second} {
		if got := median(at); got != 8 {
			t.Errorf("after %v: %g", at, got)
		}
	}
	if got := median(10 * time.Minute); !math.IsNaN(got) {
		t.Errorf("after ten minutes: %g", got)
	}
	d.observe(s, 2, 1, 25*time.Minute) // in the place of one that is gone
	if got := median(25 * time.Minute); got != 2 {
		t.Errorf("anew: %g", got)
	}
}
