// Package scrapes keeps the answers of nodes to scrapes, and asks the query engine of Prometheus about it.
package scrapes

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/gyrohq/gyro/tools/internal/alertrules"
)

// Store has series by their labels.
type Store map[string]*promql.Series

// Target has the labels that a scrape gives to the series of a node.
type Target struct{ Cluster, Instance string }

// Add adds a value to a series.
func (s Store) Add(of labels.Labels, at time.Duration, value float64) {
	name := of.String()
	if s[name] == nil {
		s[name] = &promql.Series{Metric: of}
	}
	s[name].Floats = append(s[name].Floats, promql.FPoint{T: at.Milliseconds(), F: value})
}

// Parse returns the metrics of a scrape by their names.
func Parse(text string) (map[string]*dto.MetricFamily, error) {
	p := expfmt.NewTextParser(model.LegacyValidation)
	return p.TextToMetricFamilies(strings.NewReader(text))
}

// Scrape adds a scrape as Prometheus does, with the labels of the target and the metric up, which is 0 without text.
// Series of the target that are missing end. keep selects families by name; nil keeps all.
func (s Store) Scrape(of Target, text string, at time.Duration, keep func(name string) bool) error {
	add := func(metric model.Metric, value float64) {
		b := labels.NewBuilder(labels.EmptyLabels())
		for name, text := range metric {
			b.Set(string(name), string(text))
		}
		s.Add(b.Set("instance", of.Instance).Set("cluster", of.Cluster).Set("job", "gyro").Labels(), at, value)
	}
	families, err := Parse(text)
	if err != nil {
		return err
	}
	for name, f := range families {
		if keep != nil && !keep(name) {
			continue
		}
		samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, f)
		if err != nil {
			return err
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
	s.end(of, at)
	return nil
}

func (s Store) end(of Target, at time.Duration) {
	for _, series := range s {
		last := series.Floats[len(series.Floats)-1]
		if series.Metric.Get("instance") == of.Instance && last.T != at.Milliseconds() && !value.IsStaleNaN(last.F) {
			series.Floats = append(series.Floats, promql.FPoint{T: at.Milliseconds(), F: math.Float64frombits(value.StaleNaN)})
		}
	}
}

// Querier implements storage.Queryable.
func (s Store) Querier(from, to int64) (storage.Querier, error) {
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

// Range has the times of evaluations.
type Range struct{ From, To, Step time.Duration }

// Evaluate returns the result of an expression at each time of a range. A warning of the engine is an error.
func (s Store) Evaluate(ctx context.Context, expr string, r Range) (promql.Matrix, error) {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute})
	defer func() { _ = engine.Close() }()
	q, err := engine.NewRangeQuery(ctx, s, nil, expr, time.UnixMilli(r.From.Milliseconds()), time.UnixMilli(r.To.Milliseconds()), r.Step)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	defer q.Close()
	result := q.Exec(ctx)
	if warnings, _ := result.Warnings.AsStrings(expr, 10, 0); len(warnings) > 0 {
		return nil, fmt.Errorf("%s: %q", expr, warnings)
	}
	matrix, err := result.Matrix()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	// The engine uses the memory of points again after Close.
	for i := range matrix {
		matrix[i].Floats = slices.Clone(matrix[i].Floats)
	}
	return slices.Clone(matrix), nil
}

// Span is a time while the expression of a rule has a series.
type Span struct {
	Labels map[string]string
	// Pending and Last are the first and the last evaluation with the series. Fires is the first evaluation that makes the rule fire, or 0.
	Pending, Fires, Last time.Duration
}

// Spans returns when a rule is pending and fires.
func (s Store) Spans(ctx context.Context, rule *alertrules.Rule, r Range) (spans []Span, err error) {
	hold, err := rule.Hold()
	if err != nil {
		return nil, err
	}
	matrix, err := s.Evaluate(ctx, rule.Expr, r)
	if err != nil {
		return nil, err
	}
	for _, series := range matrix {
		var now *Span
		for _, p := range series.Floats {
			at := time.Duration(p.T) * time.Millisecond
			if now == nil || at-now.Last > r.Step {
				spans = append(spans, Span{Labels: series.Metric.Map(), Pending: at})
				now = &spans[len(spans)-1]
			}
			now.Last = at
			if now.Fires == 0 && at-now.Pending >= hold {
				now.Fires = at
			}
		}
	}
	return spans, nil
}
