package main

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gyrohq/gyro/tools/internal/scrapes"
)

// step is the time between two scrapes.
const step = 15 * time.Second

// store has series for the query engine of Prometheus. Times count from the first scrape.
type store struct{ scrapes.Store }

func newStore() store { return store{make(scrapes.Store)} }

type target = scrapes.Target

// scraped adds a scrape.
func (s store) scraped(t *testing.T, of target, text string, at time.Duration) {
	t.Helper()
	if err := s.Scrape(of, text, at, nil); err != nil {
		t.Fatal(err)
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
			s.Add(of, time.Duration(i)*step, v.Value)
		}
	}
}

// at returns the result of an expression at one time.
func (s store) at(t *testing.T, expr string, at time.Duration) promql.Matrix {
	t.Helper()
	result, err := s.Evaluate(t.Context(), expr, scrapes.Range{From: at, To: at, Step: step})
	if err != nil {
		t.Error(err)
	}
	return result
}

// fires tells whether a rule fires at some time up to the end of a test.
func (s store) fires(t *testing.T, r rule, end time.Duration) bool {
	t.Helper()
	return len(s.firing(t, r, end)) > 0
}

// hold is how long the expression of a rule has to have a series until the rule fires.
func hold(t *testing.T, r rule) time.Duration {
	t.Helper()
	d, err := r.Hold()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// firing returns the times up to the end of a test at which a rule fires for any series, in their order.
func (s store) firing(t *testing.T, r rule, end time.Duration) []time.Duration {
	t.Helper()
	return s.between(t, r, 0, end)
}

// between does what firing does, from a time on.
func (s store) between(t *testing.T, r rule, begin, end time.Duration) []time.Duration {
	t.Helper()
	spans, err := s.Spans(t.Context(), &r, scrapes.Range{From: begin, To: end, Step: step})
	if err != nil {
		t.Fatal(err)
	}
	times := make(map[time.Duration]bool)
	for _, span := range spans {
		for at := span.Pending + hold(t, r); at <= span.Last; at += step {
			times[at] = true
		}
	}
	return slices.Sorted(maps.Keys(times))
}
