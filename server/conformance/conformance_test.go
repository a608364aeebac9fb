package conformance

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/app"
	"github.com/gyrohq/gyro/server/auth"
	"github.com/gyrohq/gyro/server/config"
	"github.com/gyrohq/gyro/server/internal/apicall"
)

// start starts a server whose channels grant all that checks need, and returns how its WebSocket endpoint is judged.
func start(t *testing.T) Options {
	t.Helper()
	cfg := config.DefaultConfig()
	cfg.HTTPServer.Address, cfg.HTTPServer.Port = "127.0.0.1", 0
	cfg.Client.Token.HMACSecretKey, cfg.HTTPAPI.Key = "token-secret", "api-key"
	cfg.HTTPStream.Enabled, cfg.SSE.Enabled = true, true
	cfg.Client.PingInterval, cfg.Client.PongTimeout = 2*time.Second, 1900*time.Millisecond
	all := config.ChannelOptions{}
	all.AllowSubscribeForClient, all.AllowPublishForSubscriber = true, true
	all.Presence, all.AllowPresenceForSubscriber, all.JoinLeave, all.ForcePushJoinLeave = true, true, true, true
	all.HistorySize, all.HistoryTTL, all.ForceRecovery, all.AllowHistoryForSubscriber = 100, time.Minute, true, true
	all.AllowedDeltaTypes, all.DeltaPublish, all.AllowTagsFilter, all.AllowChannelCompaction = []string{"fossil"}, true, true, true
	cached := all
	cached.ForceRecoveryMode = "cache"
	board := config.ChannelOptions{}
	board.SubscriptionType, board.AllowSubscribeForClient = "map", true
	board.Map.Mode, board.Map.AllowPublishForSubscriber, board.Map.AllowRemoveForSubscriber = "persistent", true, true
	cfg.Channel.Namespaces = []config.Namespace{{Name: "all", ChannelOptions: all}, {Name: "cached", ChannelOptions: cached}, {Name: "board", ChannelOptions: board}}
	server, err := app.New(cfg, app.Options{Version: "test", Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = server.Start(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	host := server.Addr("external")
	sign := func(claims auth.Claims, ttl time.Duration) (string, error) {
		now := time.Now()
		if ttl < 0 {
			now, ttl = now.Add(ttl), time.Second
		}
		claims.User, claims.TTL = "ann", ttl
		return auth.Sign(cfg.Client.Token, claims, now)
	}
	return Options{
		URL: "ws://" + host + "/connection/websocket", Prefixes: []string{"all:", "cached:", "board:"}, User: "ann", Seed: 1,
		Sign:             func(ttl time.Duration) (string, error) { return sign(auth.Claims{}, ttl) },
		SignSubscription: func(ch string, ttl time.Duration) (string, error) { return sign(auth.Claims{Channel: ch}, ttl) },
		API:              &apicall.Caller{URL: "http://" + host + "/api", Key: "api-key", HTTP: http.DefaultClient},
	}
}

// TestGyro: a server that grants everything passes every check, over each transport and encoding. Skipped are only checks of another one.
func TestGyro(t *testing.T) {
	t.Parallel()
	o := start(t)
	host := strings.TrimSuffix(strings.TrimPrefix(o.URL, "ws://"), "/connection/websocket")
	var made sync.Map
	t.Cleanup(func() {
		for _, r := range Rules() {
			if _, ok := made.Load(r.Check); !ok {
				t.Errorf("%s was made over no transport", r.Check)
			}
		}
	})
	for _, way := range []struct {
		url      string
		encoding protocol.Encoding
	}{
		{o.URL, protocol.JSON}, {o.URL, protocol.Protobuf},
		{"http://" + host + "/connection/http_stream", protocol.JSON}, {"http://" + host + "/connection/http_stream", protocol.Protobuf},
		{"http://" + host + "/connection/sse", protocol.JSON},
	} {
		t.Run(path.Base(way.url)+" "+way.encoding.String(), func(t *testing.T) {
			t.Parallel()
			o := o
			o.URL, o.Encoding = way.url, way.encoding
			results, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				switch {
				case r.Status == Failed:
					t.Errorf("%s: %s: %s\n  %s", r.Check, r.Rule, r.Text, strings.Join(r.Transcript, "\n  "))
				case r.Status == Skipped && !ofAnother.MatchString(r.Text):
					t.Errorf("%s: skipped: %s", r.Check, r.Text)
				case r.Status == Passed:
					made.Store(r.Check, true)
				}
			}
		})
	}
}

// ofAnother matches why a check is for another transport or encoding.
var ofAnother = regexp.MustCompile(`^needs (WebSocket|an HTTP stream|SSE|HTTP streaming|JSON|Protobuf)$`)

// TestSections: the sections that checks name are there.
func TestSections(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for _, r := range Rules() {
		if names[r.Check] {
			t.Errorf("two checks have the name %s", r.Check)
		}
		names[r.Check] = true
		page, anchor, _ := strings.Cut(r.Section, "#")
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for line := range strings.Lines(string(text)) {
			if title, ok := strings.CutPrefix(line, "#"); ok {
				title = strings.ToLower(strings.TrimSpace(strings.TrimLeft(title, "#")))
				found = found || strings.ReplaceAll(title, " ", "-") == anchor
			}
		}
		if !found {
			t.Errorf("%s: docs/%s has no section #%s", r.Check, page, anchor)
		}
	}
}

// TestSkipped: what a server does not offer is skipped with the reason, and not passed.
func TestSkipped(t *testing.T) {
	t.Parallel()
	o := start(t)
	o.Prefixes, o.API, o.SignSubscription = []string{"board:"}, nil, nil
	results, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	reasons := make(map[string]string)
	for _, r := range results {
		if r.Status == Failed {
			t.Errorf("%s: %s", r.Check, r.Text)
		}
		if r.Status == Skipped {
			reasons[r.Check] = r.Text
		}
	}
	for name, want := range map[string]string{
		"recovery.missed":     "no channel of --channel grants: subscribing, recovery, publishing (by clients, or --api-key)",
		"closing.default":     "needs the HTTP API (--api-key)",
		"frames.protobuf.cut": "needs Protobuf",
	} {
		if reasons[name] != want {
			t.Errorf("%s: skipped because of %q, expected %q", name, reasons[name], want)
		}
	}
}

// TestCannotConnect: a server that lets nobody in cannot be judged.
func TestCannotConnect(t *testing.T) {
	t.Parallel()
	o := start(t)
	o.Sign, o.Token = nil, ""
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "3501") {
		t.Errorf("error %v", err)
	}
}
