package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/testkit/apptest"
)

func testTarget(url string, e protocol.Encoding) Target {
	return Target{URL: url, Encoding: e, Channel: "bench", Size: 128, Dialers: 4, Drain: wait.Limit, Timeout: wait.Limit}
}

// startServer starts a server: clients need a token, and may publish; namespace
// kept has history. It returns how it is reached.
func startServer(t *testing.T, e protocol.Encoding) Target {
	t.Helper()
	return startServerWith(t, e, func(*config.Config) {})
}

// startServerWith is startServer with another configuration.
func startServerWith(t *testing.T, e protocol.Encoding, edit func(*config.Config)) Target {
	t.Helper()
	cfg, server := apptest.Start(t, func(cfg *config.Config) {
		cfg.HTTPStream.Enabled, cfg.SSE.Enabled = true, true
		cfg.UniHTTPStream.Enabled, cfg.UniSSE.Enabled, cfg.UniWebSocket.Enabled, cfg.UniPoll.Enabled = true, true, true, true
		cfg.UniPoll.Timeout = 2 * time.Second
		open := cfg.Channel.WithoutNamespace
		open.AllowSubscribeForClient, open.AllowPublishForClient = true, true
		cfg.Channel.WithoutNamespace = open
		kept := config.Namespace{Name: "kept", ChannelOptions: open}
		// Clients may come back late: publications go on meanwhile.
		kept.HistorySize, kept.HistoryTTL, kept.ForceRecovery = 100_000, time.Hour, true
		cfg.Channel.Namespaces = append(cfg.Channel.Namespaces, kept)
		edit(cfg)
	})
	host := server.Addr("external")
	target := testTarget("ws://"+host+"/connection/websocket", e)
	target.API, target.APIKey = "http://"+host+"/api", apptest.APIKey
	target.Token = func(_ int, channels ...string) (string, error) {
		return auth.Sign(cfg.Client.Token, auth.Claims{User: "u", Channels: channels, TTL: time.Hour}, time.Now())
	}
	target.PID = os.Getpid()
	return target
}

// ways are the two of publishing.
func ways(t *testing.T, f func(t *testing.T, target Target, overAPI bool)) {
	encodings(t, func(t *testing.T, e protocol.Encoding) {
		for way, overAPI := range map[string]bool{"client": false, "api": true} {
			t.Run(way, func(t *testing.T) {
				t.Parallel()
				f(t, startServer(t, e), overAPI)
			})
		}
	})
}

func needsProc(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc")
	}
}

func TestFanout(t *testing.T) {
	t.Parallel()
	needsProc(t)
	ways(t, func(t *testing.T, target Target, overAPI bool) {
		var lines atomic.Int64
		target.Progress = func(string) { lines.Add(1) }
		rep, err := execute(t, Fanout{
			Target: target, Subscribers: 10, Channels: 2,
			Load: Load{Publishers: 3, Messages: 20, Window: 4, OverAPI: overAPI},
		})
		if err != nil {
			t.Fatal(err)
		}
		if d := rep.Deliver; d.Expected != 300 || d.Received != 300 || d.Lost != 0 || d.Latency.Count != 300 || d.Server == nil {
			t.Errorf("%+v", d)
		}
		if p := rep.Publish; p.Publications != 60 || p.Size != 128 || overAPI != (p.Requests == 15) {
			t.Errorf("%+v", p)
		}
		if c := rep.Connect; c.Connected != 10 || c.Latency.Count != 10 {
			t.Errorf("%+v", c)
		}
	})
}

// TestMaps: subscribers page through maps, then get every change.
func TestMaps(t *testing.T) {
	t.Parallel()
	needsProc(t)
	for _, overAPI := range []bool{false, true} {
		encodings(t, func(t *testing.T, e protocol.Encoding) {
			target := startServerWith(t, e, func(c *config.Config) {
				maps := config.Namespace{Name: "map"}
				maps.SubscriptionType, maps.Map.Mode, maps.Map.MinPageSize = "map", "persistent", 1
				maps.Map.CatchUpTimeout = wait.Limit
				maps.AllowSubscribeForClient, maps.Map.AllowPublishForClient = true, true
				c.Channel.Namespaces = append(c.Channel.Namespaces, maps)
			})
			target.Channel, target.Keys, target.Page = "map:bench", 7, 3
			rep, err := execute(t, Fanout{
				Target: target, Subscribers: 10, Channels: 2,
				Load: Load{Publishers: 3, Messages: 20, Window: 4, OverAPI: overAPI},
			})
			if err != nil {
				t.Fatal(err)
			}
			if d := rep.Deliver; d.Expected != 300 || d.Received != 300 || d.Lost != 0 {
				t.Errorf("%+v", d)
			}
		})
	}
}

// TestRate: not faster than the rate, and until the duration is over.
func TestRate(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, target Target, overAPI bool) {
		load := Load{Publishers: 2, Rate: 200, Messages: 10, Window: 10, OverAPI: overAPI}
		rep, err := execute(t, Fanout{Target: target, Subscribers: 2, Channels: 1, Load: load})
		if err != nil || rep.Publish.Publications != 20 || rep.Publish.Seconds < 0.09 {
			t.Errorf("%v %+v", err, rep.Publish)
		}
		load.Messages, load.Duration = 0, 100*time.Millisecond
		rep, err = execute(t, Fanout{Target: target, Subscribers: 2, Channels: 1, Load: load})
		if err != nil || rep.Publish.Seconds < 0.1 {
			t.Errorf("%v %+v", err, rep.Publish)
		}
	})
}

func TestIdle(t *testing.T) {
	t.Parallel()
	needsProc(t)
	encodings(t, func(t *testing.T, e protocol.Encoding) {
		rep, err := execute(t, Idle{Target: startServer(t, e), Connections: 20, Duration: time.Millisecond})
		if err != nil || rep.Channels != 20 || rep.Idle.Connections != 20 || rep.Idle.Server == nil || rep.Deliver != nil {
			t.Errorf("%v %+v", err, rep.Idle)
		}
	})
}

func TestStorm(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, target Target, overAPI bool) {
		target.Channel = "kept:bench"
		for _, channels := range []int{0, 3} {
			rep, err := execute(t, Storm{
				Target: target, Connections: 20, Channels: channels, Live: 200,
				Load: Load{Publishers: 2, Messages: 3, Window: 8, OverAPI: overAPI},
			})
			if err != nil {
				t.Fatal(err)
			}
			s := rep.Storm
			if s.Returned != 20 || s.Recovered != 20 || s.Away.Count != 20 || s.Return.Count != 20 || s.Missed < 60 {
				t.Errorf("%+v", s)
			}
			if d := rep.Deliver; d.Received < 80 || d.Lost+d.Duplicated+d.Reordered+d.Corrupt != 0 {
				t.Errorf("%+v", d)
			}
		}
	})
}

func TestPublish(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, target Target, overAPI bool) {
		rep, err := execute(t, Publish{Target: target, Channels: 3, Load: Load{Publishers: 2, Messages: 25, Window: 10, OverAPI: overAPI}})
		if err != nil || rep.Publish.Publications != 50 || rep.Publish.Server == nil || rep.Connect != nil {
			t.Errorf("%v %+v", err, rep.Publish)
		}
	})
	target := startServer(t, protocol.JSON)
	rep, err := execute(t, Publish{Target: target, Channels: 100, Broadcast: true, Load: Load{Publishers: 1, Messages: 3, Window: 1, OverAPI: true}})
	if err != nil || rep.Publish.Publications != 300 || rep.Publish.Requests != 3 {
		t.Errorf("%v %+v", err, rep.Publish)
	}
}

// TestAPIErrors: each kind of publishing tells what the API says.
func TestAPIErrors(t *testing.T) {
	t.Parallel()
	good := startServer(t, protocol.JSON)
	for want, s := range map[string]Publish{
		"HTTP status 401: the API key": {Target: withTarget(good, func(t *Target) { t.APIKey = "wrong" }), Load: Load{Window: 1}},
		"HTTP status 404":              {Target: withTarget(good, func(t *Target) { t.API += "/x" }), Load: Load{Window: 1}},
		"/publish: error 102":          {Target: withTarget(good, func(t *Target) { t.Channel = "no:such" }), Load: Load{Window: 1}},
		"/batch: 5 of 5 publications":  {Target: withTarget(good, func(t *Target) { t.Channel = "no:such" }), Load: Load{Window: 5}},
		"/broadcast: 3 of 3":           {Target: withTarget(good, func(t *Target) { t.Channel = "no:such" }), Load: Load{Window: 1}, Channels: 3, Broadcast: true},
	} {
		s.Publishers, s.Messages, s.OverAPI, s.Channels = 1, 10, true, max(s.Channels, 1)
		if _, err := execute(t, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func withTarget(t Target, edit func(*Target)) Target {
	edit(&t)
	return t
}

// TestReportShape: names in the JSON are what scripts rely on.
func TestReportShape(t *testing.T) {
	t.Parallel()
	usage := &Usage{}
	latency := newHistogram()
	latency.record(time.Millisecond)
	l := latency.latency()
	rep := &Report{
		Scenario: "storm", Error: "x", Encoding: "json",
		Connect: &ConnectResult{Latency: l, Server: usage}, Publish: &PublishResult{Latency: l, Server: usage},
		Deliver: &DeliverResult{Latency: l, Server: usage}, Idle: &IdleResult{Server: usage},
		Storm: &StormResult{Away: l, Return: l, Server: usage}, Disconnects: map[string]int{"3008 slow": 1},
	}
	var buf bytes.Buffer
	if err := rep.WriteJSON(&buf); err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(buf.Bytes(), &tree); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/shape.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), strings.Join(paths(nil, "", tree), "\n")+"\n"); diff != "" {
		t.Error(diff)
	}
	if err := rep.WriteText(io.Discard); err != nil {
		t.Error(err)
	}
}

// paths lists the leaves of a JSON document.
func paths(list []string, prefix string, v any) []string {
	m, ok := v.(map[string]any)
	if !ok {
		return append(list, prefix)
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = paths(list, prefix+"/"+key, m[key])
	}
	return list
}
