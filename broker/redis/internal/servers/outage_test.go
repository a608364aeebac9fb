package servers

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		primary := ""
		o := outage{log: slog.New(slog.NewTextHandler(&log, nil)), name: "shard 0", primary: func() string { return primary }}
		want := func(parts ...string) {
			t.Helper()
			lines := strings.Count(log.String(), "\n")
			for _, part := range parts {
				if lines != 1 || !strings.Contains(log.String(), part) {
					t.Errorf("no %s in %q", part, log.String())
				}
			}
			if len(parts) == 0 && lines > 0 {
				t.Errorf("log %q", log.String())
			}
			log.Reset()
		}
		o.succeeded()
		want()
		o.failed(errors.New("connection refused"))
		want("level=WARN", "cannot be reached", `part="shard 0"`, "connection refused")
		for range 60 { // some fail, some do not
			time.Sleep(calmTime / 2)
			o.failed(errors.New("connection refused"))
			time.Sleep(calmTime / 2)
			o.succeeded()
		}
		want()
		time.Sleep(calmTime)
		o.succeeded()
		o.succeeded()
		if strings.Contains(log.String(), "primary") {
			t.Errorf("a primary without Sentinels: %q", log.String())
		}
		want("level=INFO", "can be reached again", "after_ms=59500")
		o.failed(errors.New("connection refused"))
		log.Reset()
		time.Sleep(calmTime)
		primary = "10.0.0.2:6379"
		o.succeeded()
		want("level=INFO", "can be reached again", "primary=10.0.0.2:6379", `part="shard 0"`)
	})
}
