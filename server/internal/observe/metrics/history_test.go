package metrics_test

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/gyrohq/gyro/server/internal/observe/metrics"
)

type charts struct {
	Times []int64               `json:"times"`
	Lines map[string][]*float64 `json:"lines"`
}

func kept(t *testing.T, h *metrics.History) (text []byte, c charts) {
	t.Helper()
	text, err := json.Marshal(h)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, line := range c.Lines {
		if len(line) != len(c.Times) {
			t.Errorf("%s has %d points, not %d", name, len(line), len(c.Times))
		}
	}
	return text, c
}

// look is a look at a node that has been up for so many steps, with 30 messages a step and one that took a while.
func look(step int) *metrics.Figures {
	n := float64(step)
	sample := func(s metrics.Sample) metrics.Family { return metrics.Family{Samples: []metrics.Sample{s}} }
	return &metrics.Figures{Time: int64(step) * metrics.HistoryStep.Milliseconds(), Families: map[string]metrics.Family{
		"transport_messages_sent": sample(metrics.Sample{Value: 30 * n}),
		"node_messages_sent_count": {Samples: []metrics.Sample{
			{Labels: map[string]string{"type": "join"}, Value: 1000 * n}, {Labels: map[string]string{"type": "publication"}, Value: 15 * n},
		}},
		"node_publish_to_write_seconds":             sample(metrics.Sample{Value: n, Count: uint64(10 * step), Buckets: [][2]float64{{.1, 9 * n}, {.2, 10 * n}}}),
		"client_command_duration_seconds_histogram": sample(metrics.Sample{Count: uint64(3 * step)}),
		"client_queued_bytes":                       sample(metrics.Sample{Value: 77}),
	}}
}

// TestHistory: an hour of points, and no more, however long the node runs.
func TestHistory(t *testing.T) {
	var h metrics.History
	if _, c := kept(t, &h); len(c.Times) != 0 || len(c.Lines) < 15 {
		t.Errorf("%+v", c)
	}
	h.Look(look(0), metrics.Load{})
	h.Look(look(1), metrics.Load{Clients: 5, CPU: 12.5, RSS: 1 << 20})
	h.Look(look(1), metrics.Load{Clients: 6}) // the same metrics again
	_, c := kept(t, &h)
	if len(c.Times) != 1 || c.Times[0] != metrics.HistoryStep.Milliseconds() {
		t.Fatal(c.Times)
	}
	for name, want := range map[string]float64{
		"clients": 5, "cpu": 12.5, "memory": 1 << 20, "sent": 2, "received": 0, "published": 1, "arrived": 0, "median": .05556, "slowest": .19, "commands": .2, "queued": 77,
	} {
		if got := c.Lines[name][0]; got == nil || *got != want {
			t.Errorf("%s: %v, want %v", name, c.Lines[name], want)
		}
	}
	steps := int(time.Hour / metrics.HistoryStep)
	for i := 2; i <= steps+10; i++ {
		h.Look(look(i), metrics.Load{Clients: i})
	}
	text, c := kept(t, &h)
	if len(c.Times) != steps || *c.Lines["clients"][0] != 11 || *c.Lines["clients"][steps-1] != float64(steps+10) {
		t.Errorf("%d points, clients from %v", len(c.Times), *c.Lines["clients"][0])
	}
	if c.Lines["cpu"][0] != nil {
		t.Error("the CPU was not measured")
	}
	if len(text) > 48<<10 {
		t.Errorf("%d bytes", len(text))
	}
}

// TestHistoryOfNothing: what is not known any more is null, not a rate below zero.
func TestHistoryOfNothing(t *testing.T) {
	var h metrics.History
	h.Look(look(3), metrics.Load{})
	h.Look(&metrics.Figures{Time: look(4).Time}, metrics.Load{})
	_, c := kept(t, &h)
	if c.Lines["median"][0] != nil || c.Lines["sent"][0] != nil {
		t.Errorf("%v", c.Lines)
	}
}

// TestChart: what a node keeps is what the admin interface computes of the same two looks: its test reads the same file.
func TestChart(t *testing.T) {
	text, err := os.ReadFile("testdata/chart.json")
	if err != nil {
		t.Fatal(err)
	}
	var looks struct {
		Before, Now *metrics.Figures
		Clients     int
		CPU         float64
		RSS         int64
		Want        map[string]float64
	}
	if err := json.Unmarshal(text, &looks); err != nil {
		t.Fatal(err)
	}
	var h metrics.History
	h.Look(looks.Before, metrics.Load{})
	h.Look(looks.Now, metrics.Load{Clients: looks.Clients, CPU: looks.CPU, RSS: looks.RSS})
	_, c := kept(t, &h)
	if got, want := slices.Sorted(maps.Keys(c.Lines)), slices.Sorted(maps.Keys(looks.Want)); !slices.Equal(got, want) {
		t.Fatalf("lines %q, want %q", got, want)
	}
	for name, want := range looks.Want {
		if got := c.Lines[name][0]; got == nil || math.Abs(*got-want) > want/1000 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
