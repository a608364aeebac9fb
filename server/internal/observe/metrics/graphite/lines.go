package graphite

import (
	"math"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
)

type totals map[string]float64

type format struct {
	prefix string // of all paths, with the name of the node
	tags   bool
}

func newFormat(prefix, node string, tags bool) format {
	if prefix = strings.TrimSuffix(prefix, "."); prefix != "" {
		prefix += "."
	}
	return format{prefix: prefix + strings.Map(nameRune, node) + ".", tags: tags}
}

func nameRune(r rune) rune {
	if r == '.' || r > '~' {
		return '_'
	}
	return valueRune(r)
}

func valueRune(r rune) rune {
	if r <= ' ' || r == 0x7f || r == ';' {
		return '_'
	}
	return r
}

type lines struct {
	format
	text   []byte
	time   []byte // the end of each line: a space, the time and a newline
	before totals
	after  totals
}

// append returns the totals for the next interval. For a counter it writes the growth since before. Histograms are left
// out.
func (f format) append(dst []byte, families []*dto.MetricFamily, before totals, now time.Time) ([]byte, totals) {
	l := lines{format: f, text: dst, before: before, after: make(totals, len(before))}
	l.time = append(strconv.AppendInt([]byte{' '}, now.Unix(), 10), '\n')
	for _, family := range families {
		name := strings.Replace(family.GetName(), "_", ".", 2)
		for _, m := range family.GetMetric() {
			l.metric(name, m)
		}
	}
	return l.text, l.after
}

func (l *lines) metric(name string, m *dto.Metric) {
	switch {
	case m.Counter != nil:
		l.grown(l.path(name, "", m), m.Counter.GetValue(), true)
	case m.Gauge != nil:
		l.value(l.path(name, "", m), m.Gauge.GetValue())
	case m.Summary != nil:
		l.grown(l.path(name, ".sum", m), m.Summary.GetSampleSum(), false)
		l.grown(l.path(name, ".count", m), float64(m.Summary.GetSampleCount()), true)
		for _, q := range m.Summary.GetQuantile() {
			l.value(l.path(name, ".quantile."+quantile(q.GetQuantile()), m), q.GetValue())
		}
	}
}

// quantile is 50 for 0.5, 99 for 0.99 and 999 for 0.999.
func quantile(q float64) string {
	text := strconv.Itoa(int(math.Round(q * 1000)))
	if len(text) > 2 {
		text = strings.TrimSuffix(text, "0")
	}
	return text
}

func (l *lines) path(name, suffix string, m *dto.Metric) string {
	var b strings.Builder
	b.WriteString(l.prefix)
	b.WriteString(name)
	b.WriteString(suffix)
	before, between := byte('.'), byte('.')
	if l.tags {
		before, between = ';', '='
	}
	for _, label := range m.GetLabel() {
		if label.GetValue() == "" {
			continue
		}
		b.WriteByte(before)
		b.WriteString(label.GetName())
		b.WriteByte(between)
		b.WriteString(strings.Map(valueRune, label.GetValue()))
	}
	return b.String()
}

// grown subtracts rounded sums for a whole number, so that fractions are not lost.
func (l *lines) grown(path string, sum float64, whole bool) {
	l.after[path] = sum
	before := l.before[path]
	if before > sum {
		before = 0 // it began anew
	}
	if whole {
		l.line(path, strconv.FormatInt(int64(sum)-int64(before), 10))
		return
	}
	l.value(path, sum-before)
}

// value leaves out a value that Graphite does not take as a number.
func (l *lines) value(path string, v float64) {
	if !math.IsNaN(v) && !math.IsInf(v, 0) {
		l.line(path, strconv.FormatFloat(v, 'f', 6, 64))
	}
}

func (l *lines) line(path, value string) {
	l.text = append(l.text, path...)
	l.text = append(l.text, ' ')
	l.text = append(l.text, value...)
	l.text = append(l.text, l.time...)
}
