package sizing

import (
	"math"
	"testing"

	"github.com/gyrohq/gyro/e2e/million/internal/report"
)

func measured(t *testing.T, m *Model, s Size) *report.Report {
	t.Helper()
	r := &report.Report{Conns: s.Conns, Nodes: s.Nodes, Shards: s.Shards}
	// Without connections: a run whose connections cost nothing.
	none := *m
	_, positioned, present, err := s.channels()
	if err != nil {
		t.Fatal(err)
	}
	none.ConnMemory, none.SocketMemory, none.ChannelMemory, none.ConnCPU, none.CommandCPU, none.CommandIn, none.ConnBytes = 0, 0, 0, 0, 0, 0, 0
	for _, phase := range []struct {
		name string
		m    *Model
	}{{"empty", &none}, {"idle", m}} {
		rows, err := phase.m.Predict(s)
		if err != nil {
			t.Fatal(err)
		}
		section := report.Section{Name: phase.name}
		for _, row := range rows {
			if row.Name == "Redis commands" && phase.name == "empty" {
				row.Predicted -= positioned*check + present*renewal + float64(s.Nodes*s.Shards)*mark
			}
			section.Rows = append(section.Rows, report.Row{Name: row.Name, Value: row.Predicted})
			if row.Name == "memory of the nodes (PSS)" {
				section.Rows = append(section.Rows, report.Row{Name: "memory of the nodes (RSS)", Value: row.Predicted + float64(s.Nodes-1)*m.SharedMemory})
			}
		}
		r.Sections = append(r.Sections, section)
	}
	return r
}

// TestFit: the model of a small run predicts a large one that costs the same.
func TestFit(t *testing.T) {
	truth := &Model{
		SharedMemory: 38, NodeMemory: 11, ConnMemory: 0.002, SocketMemory: 0.0075, ShardMemory: 8, ChannelMemory: 0.0002,
		NodeCPU: 0.004, ConnCPU: 4e-7, LinkCPU: 1e-4, CommandCPU: 1e-5,
		LinkCommands: 3, LinkIn: 200, CommandIn: 40, LinkBytes: 1000, ConnBytes: 12,
	}
	m, err := Fit(measured(t, truth, Size{100_000, 6, 3}))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := m.Compare(measured(t, truth, Size{1_000_000, 52, 5}))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row.Measured == 0 || math.Abs(row.Off()) > 1e-6 {
			t.Errorf("%s: %v, not %v", row.Name, row.Predicted, row.Measured)
		}
	}
}

// TestChannels compares the estimate of subscribed channels with a count of the plan.
func TestChannels(t *testing.T) {
	subscribed, positioned, present, err := Size{20_000, 4, 2}.channels()
	// 10,000 of one's own, 1,000 with one subscriber, and 30, 10 and 1 with many, on all nodes.
	if err != nil || math.Abs(subscribed-(11_000+41*4)) > 1 || math.Abs(positioned-(1000+41*4)) > 1 || present != 1000 {
		t.Errorf("%v, %v and %v: %v", subscribed, positioned, present, err)
	}
}

// TestFitMissing: a report without a phase makes no model.
func TestFitMissing(t *testing.T) {
	for _, r := range []*report.Report{{Conns: 1000, Nodes: 2, Shards: 1}, {Conns: 1000, Nodes: 1, Shards: 1}, {}} {
		if _, err := Fit(r); err == nil {
			t.Errorf("a model of %+v", r)
		}
	}
}
