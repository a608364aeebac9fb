package main

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// step is the time between two scrapes.
const step = 15 * time.Second

// store has series for the query engine of Prometheus. Times count from the first scrape.
type store map[string]*promql.Series // by their labels

func (s store) add(of labels.Labels, at time.Duration, value float64) {
	name := of.String()
	if s[name] == nil {
		s[name] = &promql.Series{Metric: of}
	}
	s[name].Floats = append(s[name].Floats, promql.FPoint{T: at.Milliseconds(), F: value})
}

// target are the labels that a scrape gives to the series of a node.
type target struct{ cluster, instance string }

// scraped adds a scrape as Prometheus does, with the labels of the target and with the metric up, which is 0 if there is no text. Series
// of the target that are not there any more end.
func (s store) scraped(t *testing.T, of target, text string, at time.Duration) {
	t.Helper()
	add := func(metric model.Metric, value float64) {
		b := labels.NewBuilder(labels.EmptyLabels())
		for name, text := range metric {
			b.Set(string(name), string(text))
		}
		s.add(b.Set("instance", of.instance).Set("cluster", of.cluster).Set("job", "gyro").Labels(), at, value)
	}
	for _, f := range parsed(t, text) {
		samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, sample := range samples {
			add(sample.Metric, float64(sample.Value))
		}
	}
	up := 0.0
	if text != "" {
		up = 1
	}
	add(model.Metric{"__name__": "up"}, up)
	for _, series := range s {
		last := series.Floats[len(series.Floats)-1]
		if series.Metric.Get("instance") == of.instance && last.T != at.Milliseconds() && !value.IsStaleNaN(last.F) {
			series.Floats = append(series.Floats, promql.FPoint{T: at.Milliseconds(), F: math.Float64frombits(value.StaleNaN)})
		}
	}
}

// described adds a series of a test, such as `gyro_node_ready{instance="a"} 1 1 0x10`, with a value for each step.
func (s store) described(t *testing.T, text string) {
	t.Helper()
	of, values, err := parser.ParseSeriesDesc(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for i, v := range values {
		if !v.Omitted {
			s.add(of, time.Duration(i)*step, v.Value)
		}
	}
}

// Querier implements storage.Queryable.
func (s store) Querier(from, to int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		set := new(found)
		for _, series := range s {
			if matchesAll(series.Metric, matchers) {
				part := promql.Series{Metric: series.Metric}
				for _, p := range series.Floats {
					if p.T >= from && p.T <= to {
						part.Floats = append(part.Floats, p)
					}
				}
				set.list = append(set.list, promql.NewStorageSeries(part))
			}
		}
		return set
	}}, nil
}

func matchesAll(of labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(of.Get(m.Name)) {
			return false
		}
	}
	return true
}

// found implements storage.SeriesSet.
type found struct {
	list []storage.Series
	next int
}

func (f *found) Next() bool                      { f.next++; return f.next <= len(f.list) }
func (f *found) At() storage.Series              { return f.list[f.next-1] }
func (*found) Err() error                        { return nil }
func (*found) Warnings() annotations.Annotations { return nil }

// evaluate returns the result of an expression at each step up to a time, and fails with the warnings of the engine.
func (s store) evaluate(t *testing.T, expr string, from, to time.Duration) promql.Matrix {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute})
	defer engine.Close()
	q, err := engine.NewRangeQuery(t.Context(), s, nil, expr, time.UnixMilli(from.Milliseconds()), time.UnixMilli(to.Milliseconds()), step)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer q.Close()
	result := q.Exec(t.Context())
	if warnings, _ := result.Warnings.AsStrings(expr, 10, 0); result.Err != nil || len(warnings) > 0 {
		t.Errorf("%s: %v %q", expr, result.Err, warnings)
	}
	matrix, _ := result.Matrix()
	// The engine uses the memory of points again after Close.
	for i := range matrix {
		matrix[i].Floats = append([]promql.FPoint(nil), matrix[i].Floats...)
	}
	return append(promql.Matrix(nil), matrix...)
}

// at returns the result at one time.
func (s store) at(t *testing.T, expr string, at time.Duration) promql.Matrix {
	return s.evaluate(t, expr, at, at)
}

// fires tells whether a rule fires at some time up to the end of a test.
func (s store) fires(t *testing.T, r rule, end time.Duration) bool {
	t.Helper()
	return len(s.firing(t, r, end)) > 0
}

// hold is how long the expression of a rule has to have a series until the rule fires.
func (r *rule) hold(t *testing.T) time.Duration {
	t.Helper()
	if r.For == "" {
		return 0
	}
	d, err := model.ParseDuration(r.For)
	if err != nil {
		t.Fatalf("%s: %v", r.Alert, err)
	}
	return time.Duration(d)
}

// firing returns the times up to the end of a test at which a rule fires for any series, in their order.
func (s store) firing(t *testing.T, r rule, end time.Duration) []time.Duration {
	t.Helper()
	return s.between(t, r, 0, end)
}

// between does what firing does, from a time on.
func (s store) between(t *testing.T, r rule, begin, end time.Duration) []time.Duration {
	t.Helper()
	times := make(map[time.Duration]bool)
	for _, series := range s.evaluate(t, r.Expr, begin, end) {
		since, before := int64(-1), int64(-1)
		for _, p := range series.Floats {
			if since < 0 || p.T-before > step.Milliseconds() {
				since = p.T
			}
			if before = p.T; p.T-since >= r.hold(t).Milliseconds() {
				times[time.Duration(p.T)*time.Millisecond] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(times))
}
