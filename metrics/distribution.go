package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type shape struct {
	histogram, summary *prometheus.Desc // without summary there are no quantiles
	buckets            []float64        // upper bounds; nil: a native histogram
	began              time.Time        // when the counting began
}

// distribution counts values with the same labels, for a histogram and the quantiles beside it. Its owner holds a lock.
type distribution struct {
	count   uint64
	sum     float64
	classic []uint64      // by the bounds of the shape; the last one counts the values above all bounds
	native  *buckets      // instead of classic
	recent  *[ages]recent // for the quantiles; nil: none
}

// buckets count values: bucket n has those up to 2^(n/8+lowest), the first all lesser ones, too, and the last all
// greater ones. The growth factor, 1.09, is that of native histograms of schema 3, so the middle of a bucket differs
// from its values by 4.5% at most.
type buckets [(highest-lowest)*perOctave + 1]uint64

const (
	perOctave = 8
	schema    = 3
	lowest    = -30 // 2^-30 s is 1 ns
	highest   = 17  // 2^17 s are 36 hours
)

// recent counts the values of one part of the last ten minutes. The next part replaces the oldest.
type recent struct {
	part    int64 // its number since the counting began
	buckets buckets
}

const (
	ages     = 5
	partTime = 2 * time.Minute
)

// steps are the bounds of the buckets within an octave, as fractions of its end.
var steps = func() (s [perOctave]float64) {
	for i := range s {
		s[i] = math.Exp2(float64(i)/perOctave - 1)
	}
	return s
}()

func placeOf(v float64) int {
	fraction, exponent := math.Frexp(v) // fraction is in [0.5, 1)
	if v <= 0 || exponent <= lowest {
		return 0
	}
	if exponent > highest {
		return len(buckets{}) - 1
	}
	n := 0
	for n < perOctave && fraction > steps[n] {
		n++
	}
	return (exponent-1-lowest)*perOctave + n
}

func middle(bucket int) float64 {
	if bucket == 0 {
		return 0
	}
	return math.Exp2((float64(bucket)-0.5)/perOctave + lowest)
}

func (p *buckets) add(o *buckets) {
	for i, n := range o {
		p[i] += n
	}
}

// observe counts a value that occurred n times. now is since the counting began.
func (d *distribution) observe(s *shape, v float64, n uint64, now time.Duration) {
	d.count += n
	d.sum += v * float64(n)
	if s.buckets == nil {
		if d.native == nil {
			d.native = new(buckets)
		}
		d.native[placeOf(v)] += n
		return
	}
	if d.classic == nil {
		d.classic = make([]uint64, len(s.buckets)+1)
	}
	i := 0
	for i < len(s.buckets) && v > s.buckets[i] {
		i++
	}
	d.classic[i] += n
	if s.summary != nil {
		d.part(int64(now / partTime))[placeOf(v)] += n
	}
}

func (d *distribution) part(number int64) *buckets {
	if d.recent == nil {
		d.recent = new([ages]recent)
	}
	r := &d.recent[number%ages]
	if r.part != number {
		*r = recent{part: number}
	}
	return &r.buckets
}

func (d *distribution) parts(now time.Duration, f func(number int64, p *buckets)) {
	if d.recent == nil {
		return
	}
	for i := range d.recent {
		if r := &d.recent[i]; int64(now/partTime)-r.part < ages {
			f(r.part, &r.buckets)
		}
	}
}

func (d *distribution) add(o *distribution, now time.Duration) {
	d.count += o.count
	d.sum += o.sum
	if o.native != nil {
		if d.native == nil {
			d.native = new(buckets)
		}
		d.native.add(o.native)
	}
	if o.classic != nil && d.classic == nil {
		d.classic = make([]uint64, len(o.classic))
	}
	for i, n := range o.classic {
		d.classic[i] += n
	}
	o.parts(now, func(number int64, p *buckets) { d.part(number).add(p) })
}

// export sends the histogram and the summary, unless there was no value yet.
func (d *distribution) export(out values, s *shape, now time.Duration, labels ...string) {
	if d.count == 0 {
		return
	}
	if s.buckets == nil {
		out <- d.sparse(s, labels)
		return
	}
	counts, below := make(map[float64]uint64, len(s.buckets)), uint64(0)
	for i, bound := range s.buckets {
		below += d.classic[i]
		counts[bound] = below
	}
	out <- prometheus.MustNewConstHistogram(s.histogram, d.count, d.sum, counts, labels...)
	if s.summary != nil {
		var last buckets
		d.parts(now, func(_ int64, p *buckets) { last.add(p) })
		out <- prometheus.MustNewConstSummary(s.summary, d.count, d.sum, last.quantiles(), labels...)
	}
}

func (p *buckets) quantiles() map[float64]float64 {
	var all uint64
	for _, n := range p {
		all += n
	}
	quantiles := make(map[float64]float64)
	for _, q := range [...]float64{0.5, 0.99, 0.999} {
		quantiles[q] = math.NaN()
		left := int64(math.Ceil(q * float64(all)))
		for i, n := range p {
			if left -= int64(n); n > 0 && left <= 0 {
				quantiles[q] = middle(i)
				break
			}
		}
	}
	return quantiles
}

const mostBuckets = 200

// sparse returns the native histogram. If it has too many buckets, each two neighbours become one.
func (d *distribution) sparse(s *shape, labels []string) prometheus.Metric {
	resolution, buckets := int32(schema), make(map[int]int64)
	for i, n := range d.native[1:] {
		if n > 0 {
			buckets[i+1+lowest*perOctave] = int64(n) // the key of the bucket up to 2^(key/8)
		}
	}
	for len(buckets) > mostBuckets {
		wider := make(map[int]int64)
		for key, n := range buckets {
			wider[(key+1)>>1] += n
		}
		resolution, buckets = resolution-1, wider
	}
	return prometheus.MustNewConstNativeHistogram(
		s.histogram, d.count, d.sum, buckets, nil, d.native[0], resolution, math.Exp2(lowest), s.began, labels...)
}
