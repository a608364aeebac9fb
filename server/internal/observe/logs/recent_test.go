package logs

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/logging"
)

func TestRecent(t *testing.T) {
	recent := NewRecent()
	var out strings.Builder
	log := logging.Wrap(slog.New(recent.Handler(To(&out, "error", false).Handler())))
	_, next, more := recent.Since(0)
	log.With("client", "c1").WithGroup("g").Warn("careful", "n", 1)
	log.Info("nothing")
	log.Error("broken", "error", errors.New("why"))
	if err := logging.Flush(log); err != nil {
		t.Fatal(err)
	}
	<-more
	lines, next, _ := recent.Since(next)
	if len(lines) != 2 || next != 2 {
		t.Fatalf("%d lines, next %d: %s", len(lines), next, lines)
	}
	var line struct {
		Level, Message, Client, Time string
		G                            struct{ N int }
	}
	if err := json.Unmarshal(lines[0], &line); err != nil || line.Level != "warn" || line.Message != "careful" || line.Client != "c1" || line.G.N != 1 || line.Time == "" {
		t.Errorf("%v %s", err, lines[0])
	}
	if !strings.Contains(string(lines[1]), `"error":"why"`) || lines[1][len(lines[1])-1] != '\n' {
		t.Errorf("%s", lines[1])
	}
	// The log itself has its own level.
	if strings.Contains(out.String(), "careful") || !strings.Contains(out.String(), "broken") {
		t.Error(out.String())
	}
	if again, same, _ := recent.Since(next); len(again) != 0 || same != next {
		t.Errorf("%s", again)
	}
}

func TestRecentIsBounded(t *testing.T) {
	recent := NewRecent()
	log := slog.New(recent.Handler(slog.NewTextHandler(io.Discard, nil)))
	for i := range 3 * maxRecent {
		log.Warn("line", "i", i)
	}
	lines, next, _ := recent.Since(0)
	if len(lines) != maxRecent || next != 3*maxRecent || !strings.Contains(string(lines[0]), `"i":1000`) {
		t.Errorf("%d lines, next %d, the first is %s", len(lines), next, lines[0])
	}
	for range maxRecent {
		log.Warn("long", "text", strings.Repeat("x", maxRecentLine-200))
	}
	lines, _, _ = recent.Since(0)
	size := 0
	for _, l := range lines {
		size += len(l)
	}
	if size > maxRecentBytes || size < maxRecentBytes/2 {
		t.Errorf("%d bytes", size)
	}
	log.Warn("too long", "text", strings.Repeat("x", maxRecentLine))
	log.With("text", strings.Repeat("x", maxRecentLine)).Error(strings.Repeat("m", maxRecentLine))
	lines, _, _ = recent.Since(0)
	for _, l := range lines[len(lines)-2:] {
		if len(l) > maxRecentLine || !json.Valid(l) || !strings.Contains(string(l), "left_out") {
			t.Errorf("%.300s", l)
		}
	}
}
