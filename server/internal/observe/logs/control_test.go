package logs

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/config"
)

func section(edit func(*config.Log)) *config.Log {
	c := config.DefaultConfig().Log
	if edit != nil {
		edit(&c)
	}
	return &c
}

// TestLevelForATime: a level that is set for a time ends by itself, outlives a reload, and holds for loggers made before.
func TestLevelForATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		log := logging.Wrap(To(&out, "info", false))
		c, part := Of(log), log.With("part", 1)
		Of(log).Apply(log, section(nil))
		shows := func(level slog.Level) bool { return part.Enabled(t.Context(), level) }
		if shows(slog.LevelDebug) || !shows(slog.LevelInfo) {
			t.Fatal("the level is not info")
		}
		if err := c.SetLevel("debug", time.Minute); err != nil {
			t.Fatal(err)
		}
		if s := c.State(); s.Level != "debug" || s.Configured != "info" || time.Until(*s.Until) != time.Minute || !shows(slog.LevelDebug) {
			t.Errorf("%+v", s)
		}
		c.Apply(log, section(func(c *config.Log) { c.Level = "error" }))
		if !shows(slog.LevelDebug) {
			t.Error("a reload ended the level")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := c.State(); s.Level != "error" || s.Until != nil || shows(slog.LevelWarn) {
			t.Errorf("%+v", s)
		}
		if err := c.SetLevel("trace", time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := c.SetLevel("", 0); err != nil || shows(slog.LevelWarn) {
			t.Error(err)
		}
		for level, d := range map[string]time.Duration{"loud": time.Minute, "info": 0, "debug": 25 * time.Hour} {
			if err := c.SetLevel(level, d); err == nil {
				t.Errorf("%s for %v is allowed", level, d)
			}
		}
	})
}

// TestUnknownLevel: a reload that brings an unknown level says so, as a start does.
func TestUnknownLevel(t *testing.T) {
	var out strings.Builder
	log := logging.Wrap(To(&out, "error", false))
	Of(log).Apply(log, section(func(c *config.Log) { c.Level = "loud" }))
	if err := logging.Flush(log); err != nil {
		t.Fatal(err)
	}
	if s := Of(log).State(); s.Configured != "info" || !strings.Contains(out.String(), `"level":"warn","message":"unknown log.level, using info","log.level":"loud"`) {
		t.Errorf("%+v, and the log has %q", s, out.String())
	}
}

// TestAccess: lines of the access log are as of the level info and not limited; of a sample there are as many as said.
func TestAccess(t *testing.T) {
	var out strings.Builder
	log := logging.Wrap(To(&out, "warn", false))
	c, access := Of(log), AccessOf(log)
	requests := func(n int) string {
		t.Helper()
		for range n {
			if !access.On() {
				continue
			}
			if level, ok := access.Next(); ok {
				log.Log(t.Context(), level, "request")
			}
		}
		if err := logging.Flush(log); err != nil {
			t.Fatal(err)
		}
		defer out.Reset()
		return out.String()
	}
	warn := func(c *config.Log) { c.Level = "warn" }
	c.Apply(log, section(warn))
	if got := requests(10); got != "" {
		t.Errorf("%s", got)
	}
	c.Apply(log, section(func(c *config.Log) { warn(c); c.Access = true }))
	if got := requests(100); strings.Count(got, `"level":"info","message":"request"`) != 100 {
		t.Errorf("%d lines: %.200s", strings.Count(got, "\n"), got)
	}
	c.Apply(log, section(func(c *config.Log) { warn(c); c.Access, c.AccessSample = true, 10 }))
	if got := requests(100); strings.Count(got, "\n") != 10 {
		t.Errorf("%d lines", strings.Count(got, "\n"))
	}
	c.Apply(log, section(func(c *config.Log) { c.Level = "debug" }))
	if got := requests(100); strings.Count(got, `"level":"debug"`) != 100 {
		t.Errorf("%d lines", strings.Count(got, "\n"))
	}
}

// TestRefusals: all refusals are counted, whatever the log shows, by kind, code and key, with the newest.
func TestRefusals(t *testing.T) {
	var out strings.Builder
	log := logging.Wrap(To(&out, "error", false))
	reporter := refusal.Reporter{Log: log, Observe: func(f *refusal.Refusal) { f.Key = strings.ToLower(f.Key) }}
	for i := range 30 {
		reporter.Report(refusal.Refusal{Kind: "subscribe refused", Client: fmt.Sprint("c", i), Channel: strings.Repeat("x", 1000)}, 103,
			refusal.Because(errors.New("permission denied"), "ALLOW", "nobody may"))
	}
	reporter.Report(refusal.Refusal{Kind: "connection refused", Addr: "1.2.3.4"}, 503, errors.New("full"))
	kinds, since := Of(log).Refusals().List()
	if len(kinds) != 2 || since.IsZero() {
		t.Fatalf("%+v", kinds)
	}
	most := kinds[0]
	if most.Kind != "subscribe refused" || most.Code != 103 || most.Key != "allow" || most.Count != 30 || len(most.Examples) != 5 {
		t.Errorf("%+v", most)
	}
	if e := most.Examples[0]; e.Client != "c29" || most.Examples[4].Client != "c25" || e.Reason != "nobody may" || len(e.Channel) != 256 {
		t.Errorf("%+v", most.Examples)
	}
	for i := range 2 * maxKinds {
		reporter.Report(refusal.Refusal{Kind: "RPC refused"}, uint32(i), errors.New("no"))
	}
	kinds, _ = Of(log).Refusals().List()
	var others uint64
	for _, k := range kinds {
		if k.Kind == "" {
			others = k.Count
		}
	}
	if len(kinds) != maxKinds+1 || others != maxKinds+2 {
		t.Errorf("%d kinds, %d others", len(kinds), others)
	}
}

// TestHandlers: operators set the level and read the refusals.
func TestHandlers(t *testing.T) {
	log := To(new(strings.Builder), "info", false)
	c := Of(log)
	t.Cleanup(c.Close)
	post := func(body string) (int, string) {
		w := httptest.NewRecorder()
		LevelHandler(c, log).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
		return w.Code, w.Body.String()
	}
	for _, tt := range []struct {
		body   string
		status int
		want   string
	}{
		{``, 200, `{"level":"info","configured":"info"}`},
		{`{"level":"debug","duration":60}`, 200, `{"level":"debug","configured":"info","until":"`},
		{`{"level":"loud","duration":60}`, 400, `"loud" is no level`},
		{`{"level":"debug"}`, 400, "1 to 86400 seconds"},
		{`{`, 400, "Bad Request"},
		{`{"level":""}`, 200, `{"level":"info","configured":"info"}`},
	} {
		if status, got := post(tt.body); status != tt.status || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %d %s", tt.body, status, got)
		}
	}
	w := httptest.NewRecorder()
	RefusalsHandler(c).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Body.String() != `{"refusals":[]}` {
		t.Errorf("%s", w.Body)
	}
	refusal.Reporter{Log: log}.Report(refusal.Refusal{Kind: "connection refused"}, 503, errors.New("full"))
	w = httptest.NewRecorder()
	RefusalsHandler(c).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if got := w.Body.String(); !strings.Contains(got, `"kind":"connection refused","code":503,"count":1`) || !strings.Contains(got, `"since":"`) {
		t.Errorf("%s", got)
	}
	if Of(slog.New(slog.DiscardHandler)) != nil {
		t.Error("a logger of others has a control")
	}
}
