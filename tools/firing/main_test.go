package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// TestTell: a node that is not ready for a while, and then does not answer, makes the rules fire that the project ships.
func TestTell(t *testing.T) {
	rules, err := os.ReadFile("../../deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	const (
		begin = 1_767_225_600_000
		step  = 5_000
	)
	var recording bytes.Buffer
	packed := gzip.NewWriter(&recording)
	lines := json.NewEncoder(packed)
	for i := range int64(60) {
		s := scrape{At: begin + i*step, Instance: "rt-1", Text: "gyro_node_build{version=\"1\"} 1\ngyro_node_ready 1\n"}
		switch {
		case i >= 40:
			s.Text = ""
		case i >= 10 && i < 20:
			s.Text = "gyro_node_build{version=\"1\"} 1\ngyro_node_ready 0\n"
		}
		if err := lines.Encode(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := tell(t.Context(), rules, &recording, step*time.Millisecond, &out); err != nil {
		t.Fatal(err)
	}
	want := map[string]alert{
		"GyroNodeNotReady": {Severity: "critical", Pending: begin + 10*step, Fires: begin + 16*step, Last: begin + 19*step},
		"GyroNodeDown":     {Severity: "critical", Pending: begin + 40*step, Fires: begin + 52*step, Last: begin + 59*step},
	}
	for lines := json.NewDecoder(&out); ; {
		var got alert
		if err := lines.Decode(&got); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		w, ok := want[got.Alert]
		if !ok || got.Labels["instance"] != "rt-1" || got.Severity != w.Severity || got.Pending != w.Pending || got.Fires != w.Fires || got.Last != w.Last {
			t.Errorf("%+v, want %+v", got, w)
		}
		delete(want, got.Alert)
	}
	if len(want) > 0 {
		t.Errorf("not told: %+v", want)
	}
}
