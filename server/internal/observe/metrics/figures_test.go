package metrics_test

import (
	"encoding/json"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/observe/metrics"
)

func TestFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := metrics.New(metrics.Config{Namespace: "here", Version: "v1"})
		commands := r.API("http")
		commands.Executed(api.MethodInfo, 3*time.Millisecond, nil, nil)
		commands.Executed(api.MethodInfo, 30*time.Second, nil, api.ErrNotFound)
		f := r.Figures()
		if f.Time != time.Now().UnixMilli() {
			t.Errorf("time %d", f.Time)
		}
		took := f.Families["api_command_duration_seconds_histogram"]
		if took.Type != "histogram" || len(took.Samples) != 1 {
			t.Fatalf("%+v", took)
		}
		s := took.Samples[0]
		if s.Count != 2 || math.Abs(s.Value-30.003) > 1e-6 || s.Labels["method"] != "info" || s.Buckets[0] != [2]float64{.005, 1} || s.Buckets[len(s.Buckets)-1] != [2]float64{10, 1} {
			t.Errorf("%+v", s)
		}
		if e := f.Families["api_command_errors_total"]; e.Type != "counter" || e.Samples[0].Value != 1 || e.Samples[0].Labels["error"] != "104" {
			t.Errorf("%+v", e)
		}
		if _, summary := f.Families["api_command_duration_seconds"]; summary {
			t.Error("there is a summary")
		}
		if _, err := json.Marshal(f); err != nil {
			t.Error(err)
		}
		// Many who look cost no more than one.
		commands.Executed(api.MethodInfo, time.Millisecond, nil, nil)
		if r.Figures() != f {
			t.Error("they were collected again at once")
		}
		time.Sleep(time.Second)
		if s := r.Figures().Families["api_command_duration_seconds_histogram"].Samples[0]; s.Count != 3 {
			t.Errorf("%+v", s)
		}
	})
}

// TestCharted: what charts need, added up.
func TestCharted(t *testing.T) {
	r := metrics.New(metrics.Config{Namespace: "here", Version: "v1"})
	commands := r.API("http")
	commands.Executed(api.MethodInfo, 3*time.Millisecond, nil, nil)
	commands.Executed(api.MethodPublish, 7*time.Millisecond, nil, api.ErrNotFound)
	r.Observer().Totals.AddSent(observe.EventPublication, "", 1)
	all, f := r.Figures(), r.Charted().(*metrics.Figures)
	if f.Time != all.Time {
		t.Error(f.Time, all.Time)
	}
	took := f.Families["api_command_duration_seconds_histogram"]
	if len(all.Families["api_command_duration_seconds_histogram"].Samples) != 2 || len(took.Samples) != 1 {
		t.Fatalf("%+v", took)
	}
	if s := took.Samples[0]; s.Labels != nil || s.Count != 2 || math.Abs(s.Value-.01) > 1e-9 || s.Buckets[0] != [2]float64{.005, 1} || s.Buckets[1] != [2]float64{.01, 2} {
		t.Errorf("%+v", s)
	}
	if all.Families["api_command_duration_seconds_histogram"].Samples[0].Count != 1 {
		t.Error("the figures themselves were changed")
	}
	for _, s := range f.Families["node_messages_sent_count"].Samples {
		if len(s.Labels) > 1 {
			t.Errorf("%+v", s)
		}
	}
	for _, name := range []string{"node_publish_to_write_seconds", "transport_messages_sent", "client_num_reply_errors", "client_queued_bytes"} {
		if len(f.Families[name].Samples) > 1 {
			t.Errorf("%s: %+v", name, f.Families[name])
		}
	}
	if _, there := f.Families["node_action_count"]; there {
		t.Error("there is more than charts need")
	}
	if (*metrics.Registry)(nil).Charted() != nil {
		t.Error("without a registry")
	}
}
