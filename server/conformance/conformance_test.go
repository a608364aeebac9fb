package conformance

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/auth"
	"github.com/gyrohq/gyro/server/config"
	"github.com/gyrohq/gyro/server/internal/apicall"
	"github.com/gyrohq/gyro/server/internal/apptest"
	"github.com/gyrohq/gyro/server/internal/certtest"
)

// backend answers questions for the values of keys: it knows none but those that are published.
func backend(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"result":{"items":[]}}`) }))
	t.Cleanup(s.Close)
	return s.URL
}

// certify gives a server a certificate that only clients take which check none, HTTP/3, and an API without TLS.
func certify(t *testing.T, cfg *config.Config) {
	t.Helper()
	pair, h := certtest.SelfSigned(1), &cfg.HTTPServer
	h.TLS.Enabled, h.TLSExternal, h.InternalAddress = true, true, "127.0.0.2"
	h.TLS.CertPEM, h.TLS.KeyPEM = config.PEM(pair.Certificate), config.PEM(pair.Key)
	h.HTTP3.Enabled, cfg.WebTransport.Enabled = true, true
}

// start starts a server whose channels grant all that checks need, and returns how its WebSocket endpoint is judged, or over QUIC that of
// WebTransport.
func start(t *testing.T, overQUIC bool) Options {
	t.Helper()
	cfg, server := apptest.Start(t, func(cfg *config.Config) {
		cfg.HTTPStream.Enabled, cfg.SSE.Enabled, cfg.SockJS.Enabled = true, true, true
		cfg.UniWebSocket.Enabled, cfg.UniSSE.Enabled, cfg.UniHTTPStream.Enabled = true, true, true
		cfg.Client.PingInterval, cfg.Client.PongTimeout = 2*time.Second, 1900*time.Millisecond
		all := config.ChannelOptions{}
		all.AllowSubscribeForClient, all.AllowPublishForSubscriber = true, true
		all.Presence, all.AllowPresenceForSubscriber, all.JoinLeave, all.ForcePushJoinLeave = true, true, true, true
		all.HistorySize, all.HistoryTTL, all.ForceRecovery, all.AllowHistoryForSubscriber = 100, time.Minute, true, true
		all.AllowedDeltaTypes, all.DeltaPublish, all.AllowTagsFilter, all.AllowChannelCompaction = []string{"fossil"}, true, true, true
		cached := all
		cached.ForceRecoveryMode = "cache"
		board := config.ChannelOptions{}
		board.SubscriptionType, board.AllowSubscribeForClient, board.AllowedDeltaTypes, board.DeltaPublish = "map", true, []string{"fossil"}, true
		board.Map.Mode, board.Map.AllowPublishForSubscriber, board.Map.AllowRemoveForSubscriber = "persistent", true, true
		poll := config.ChannelOptions{}
		poll.SubscriptionType, poll.AllowSubscribeForClient = "shared_poll", true
		poll.SharedPoll.Mode, poll.SharedPoll.PublishEnabled, poll.SharedPoll.RefreshInterval = "versioned", true, time.Hour
		cfg.SharedPoll.HMACSecretKey, cfg.Channel.Proxy.SharedPollRefresh.Endpoint = "key-secret", backend(t)
		cfg.Channel.Namespaces = []config.Namespace{
			{Name: "all", ChannelOptions: all}, {Name: "cached", ChannelOptions: cached}, {Name: "board", ChannelOptions: board}, {Name: "poll", ChannelOptions: poll},
		}
		if overQUIC {
			certify(t, cfg)
		}
	})
	sign := func(claims auth.Claims, ttl time.Duration) (string, error) {
		now := time.Now()
		if ttl < 0 {
			now, ttl = now.Add(ttl), time.Second
		}
		claims.User, claims.TTL = "ann", ttl
		return auth.Sign(cfg.Client.Token, claims, now)
	}
	o := Options{
		URL: "ws://" + server.Addr("external") + "/connection/websocket", Prefixes: []string{"all:", "cached:", "board:", "poll:"}, User: "ann", Seed: 1,
		Sign:             func(ttl time.Duration) (string, error) { return sign(auth.Claims{}, ttl) },
		SignSubscription: func(ch string, ttl time.Duration) (string, error) { return sign(auth.Claims{Channel: ch}, ttl) },
		SignKeys: func(ch string, keys []string, ttl time.Duration) string {
			now := time.Now()
			return auth.SignTrack(cfg.SharedPoll.HMACSecretKey, "ann", ch, keys, now.Unix(), now.Add(ttl).Unix())
		},
		API: &apicall.Caller{URL: "http://" + server.Addr("external") + "/api", Key: apptest.APIKey, HTTP: http.DefaultClient},
	}
	if overQUIC {
		o.URL, o.TLS = "https://"+server.Addr("external")+"/connection/webtransport", &tls.Config{InsecureSkipVerify: true}
		o.API.URL = "http://" + server.Addr("internal") + "/api"
	}
	return o
}

// TestGyro: a server that grants everything passes every check, over each transport and encoding. Skipped are only checks of another one.
// All transports are judged at once, because the checks mostly wait for pings.
func TestGyro(t *testing.T) {
	t.Parallel()
	tcp, quic := start(t, false), start(t, true)
	at := strings.TrimSuffix(strings.TrimPrefix(tcp.URL, "ws"), "websocket")
	var made sync.Map
	var all sync.WaitGroup
	for _, way := range []struct {
		url      string
		encoding protocol.Encoding
	}{
		{tcp.URL, protocol.JSON}, {tcp.URL, protocol.Protobuf},
		{"http" + at + "http_stream", protocol.JSON}, {"http" + at + "http_stream", protocol.Protobuf}, {"http" + at + "sse", protocol.JSON},
		{"ws" + at + "uni_websocket", protocol.JSON}, {"http" + at + "uni_http_stream", protocol.JSON}, {"http" + at + "uni_sse", protocol.JSON},
		{"http" + at + "sockjs", protocol.JSON}, {quic.URL, protocol.JSON}, {quic.URL, protocol.Protobuf},
	} {
		all.Go(func() {
			o, name := tcp, path.Base(way.url)+" "+way.encoding.String()
			if way.url == quic.URL {
				o = quic
			}
			o.URL, o.Encoding = way.url, way.encoding
			if way.url == quic.URL || path.Base(way.url) == "sockjs" {
				o.Steps = 30 // the conversations are those of the other transports
			}
			results, err := Run(t.Context(), o)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, r := range results {
				switch {
				case r.Status == Failed:
					t.Errorf("%s: %s: %s: %s\n  %s", name, r.Check, r.Rule, r.Text, strings.Join(r.Transcript, "\n  "))
				case r.Status == Skipped && !ofAnother.MatchString(r.Text):
					t.Errorf("%s: %s: skipped: %s", name, r.Check, r.Text)
				case r.Status == Passed:
					made.Store(r.Check, true)
				}
			}
		})
	}
	all.Wait()
	for _, r := range Rules() {
		if _, ok := made.Load(r.Check); !ok {
			t.Errorf("%s was made over no transport", r.Check)
		}
	}
}

// ofAnother matches why a check is for another transport or encoding.
var ofAnother = regexp.MustCompile(`^needs (WebSocket|an HTTP stream|SSE|HTTP streaming|WebTransport|SockJS|JSON|Protobuf|messages in frames)(, messages in frames)?$`)

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
	o := start(t, false)
	o.Prefixes, o.API, o.SignSubscription, o.Patience = []string{"board:"}, nil, nil, time.Second
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
		"pings.interval":      "the server pings every 2s: two of them take longer than --patience",
	} {
		if reasons[name] != want {
			t.Errorf("%s: skipped because of %q, expected %q", name, reasons[name], want)
		}
	}
}

// TestCannotConnect: a server that lets nobody in cannot be judged.
func TestCannotConnect(t *testing.T) {
	t.Parallel()
	o := start(t, false)
	o.Sign, o.Token = nil, ""
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "3501") {
		t.Errorf("error %v", err)
	}
}
