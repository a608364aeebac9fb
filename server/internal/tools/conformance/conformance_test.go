package conformance

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/testkit/apptest"
	"github.com/gyrohq/gyro/server/internal/testkit/certtest"
	"github.com/gyrohq/gyro/server/internal/tools/apicall"
)

// backend answers questions for the values of keys: it knows none but those that are published.
func backend(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"result":{"items":[]}}`) }))
	t.Cleanup(s.Close)
	return s.URL
}

// certify gives a server a certificate that only clients take which check none, HTTP/3, and an API without TLS.
func certify(cfg *config.Config) {
	pair, h := certtest.SelfSigned(1), &cfg.HTTPServer
	h.TLS.Enabled, h.TLSExternal, h.InternalAddress = true, true, "127.0.0.2"
	h.TLS.CertPEM, h.TLS.KeyPEM = config.PEM(pair.Certificate), config.PEM(pair.Key)
	h.HTTP3.Enabled, cfg.WebTransport.Enabled = true, true
}

// often has a server ping often enough for the checks of pings, and rarely enough for a busy machine, on which a client is seconds late
// to see and answer them. The other checks are made with pings as they are by default.
func often(cfg *config.Config) {
	cfg.Client.PingInterval, cfg.Client.PongTimeout = 10*time.Second, 9900*time.Millisecond
}

// ofPings matches the checks of pings.
var ofPings = regexp.MustCompile(`^(oneway\.)?pings\b`)

// start starts a server whose channels grant all that checks need, and returns how its WebSocket endpoint is judged, or if edit certifies
// it that of WebTransport.
func start(t *testing.T, edit ...func(*config.Config)) Options {
	t.Helper()
	cfg, server := apptest.Start(t, func(cfg *config.Config) {
		cfg.HTTPStream.Enabled, cfg.SSE.Enabled, cfg.SockJS.Enabled = true, true, true
		cfg.UniWebSocket.Enabled, cfg.UniSSE.Enabled, cfg.UniHTTPStream.Enabled = true, true, true
		all := config.ChannelOptions{}
		all.AllowSubscribeForClient, all.AllowPublishForSubscriber = true, true
		all.Presence, all.AllowPresenceForSubscriber, all.JoinLeave, all.ForcePushJoinLeave = true, true, true, true
		all.HistorySize, all.HistoryTTL, all.ForceRecovery, all.AllowHistoryForSubscriber = 100, time.Minute, true, true
		all.AllowedDeltaTypes, all.DeltaPublish, all.AllowTagsFilter, all.AllowChannelCompaction = []string{"fossil"}, true, true, true
		all.PublicationDataFormat = "binary"
		cached := all
		cached.ForceRecoveryMode = "cache"
		board := config.ChannelOptions{}
		board.SubscriptionType, board.AllowSubscribeForClient, board.AllowedDeltaTypes, board.DeltaPublish = "map", true, []string{"fossil"}, true
		board.Map.Mode, board.Map.AllowPublishForSubscriber, board.Map.AllowRemoveForSubscriber = "persistent", true, true
		board.Map.CatchUpTimeout = wait.Limit
		poll := config.ChannelOptions{}
		poll.SubscriptionType, poll.AllowSubscribeForClient = "shared_poll", true
		poll.SharedPoll.Mode, poll.SharedPoll.PublishEnabled, poll.SharedPoll.RefreshInterval = "versioned", true, time.Hour
		cfg.SharedPoll.HMACSecretKey, cfg.Channel.Proxy.SharedPollRefresh.Endpoint = "key-secret", backend(t)
		cfg.Channel.Proxy.SharedPollRefresh.Timeout = wait.Limit
		cfg.Channel.Namespaces = []config.Namespace{
			{Name: "all", ChannelOptions: all}, {Name: "cached", ChannelOptions: cached}, {Name: "board", ChannelOptions: board}, {Name: "poll", ChannelOptions: poll},
		}
		for _, e := range edit {
			e(cfg)
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
		URL: "ws://" + server.Addr("external") + "/connection/websocket", Timeout: wait.Limit, Prefixes: []string{"all:", "cached:", "board:", "poll:"}, User: "ann", Seed: 1,
		Sign:             func(ttl time.Duration) (string, error) { return sign(auth.Claims{}, ttl) },
		SignSubscription: func(ch string, ttl time.Duration) (string, error) { return sign(auth.Claims{Channel: ch}, ttl) },
		SignKeys: func(ch string, keys []string, ttl time.Duration) string {
			now := time.Now()
			return auth.SignTrack(cfg.SharedPoll.HMACSecretKey, "ann", ch, keys, now.Unix(), now.Add(ttl).Unix())
		},
		API: &apicall.Caller{URL: "http://" + server.Addr("external") + "/api", Key: apptest.APIKey, HTTP: http.DefaultClient},
	}
	if cfg.HTTPServer.TLS.Enabled {
		o.URL, o.TLS = "https://"+server.Addr("external")+"/connection/webtransport", &tls.Config{InsecureSkipVerify: true}
		o.API.URL = "http://" + server.Addr("internal") + "/api"
	}
	return o
}

// way is a transport and an encoding by which servers are judged.
type way struct {
	endpoint string
	encoding protocol.Encoding
}

// ways are all that Gyro has.
var ways = []way{
	{"websocket", protocol.JSON}, {"websocket", protocol.Protobuf}, {"http_stream", protocol.JSON}, {"http_stream", protocol.Protobuf},
	{"sse", protocol.JSON}, {"uni_websocket", protocol.JSON}, {"uni_http_stream", protocol.JSON}, {"uni_sse", protocol.JSON},
	{"sockjs", protocol.JSON}, {"webtransport", protocol.JSON}, {"webtransport", protocol.Protobuf},
}

// of returns how one of two servers is judged by the way.
func (w way) of(tcp, quic Options) Options {
	o := tcp
	switch w.endpoint {
	case "websocket", "uni_websocket":
		o.URL = strings.TrimSuffix(tcp.URL, "websocket") + w.endpoint
	case "webtransport":
		o = quic
	default:
		o.URL = "http" + strings.TrimSuffix(strings.TrimPrefix(tcp.URL, "ws"), "websocket") + w.endpoint
	}
	o.Encoding = w.encoding
	if w.endpoint == "webtransport" || w.endpoint == "sockjs" {
		o.Steps = 30 // the conversations are those of the other transports
	}
	return o
}

// passed judges a server, which has to pass each check, except those of another transport and those that left matches.
func (w way) passed(t *testing.T, o Options, left *regexp.Regexp, made *sync.Map) {
	t.Helper()
	results, err := Run(t.Context(), o)
	if err != nil {
		t.Errorf("%s %v: %v", w.endpoint, w.encoding, err)
	}
	for _, r := range results {
		switch {
		case r.Status == Failed:
			t.Errorf("%s %v: %s: %s: %s\n  %s", w.endpoint, w.encoding, r.Check, r.Rule, r.Text, strings.Join(r.Transcript, "\n  "))
		case r.Status == Skipped && !ofAnother.MatchString(r.Text) && (left == nil || !left.MatchString(r.Check)):
			t.Errorf("%s %v: %s: skipped: %s", w.endpoint, w.encoding, r.Check, r.Text)
		case r.Status == Passed:
			made.Store(r.Check, true)
		}
	}
}

// TestGyro: a server that grants everything passes every check, over each transport and encoding. Skipped are only checks of another one.
func TestGyro(t *testing.T) {
	t.Parallel()
	tcp, quic := start(t), start(t, certify)
	var made sync.Map
	var pings sync.WaitGroup
	t.Cleanup(func() {
		for _, r := range Rules() {
			if _, ok := made.Load(r.Check); !ok {
				t.Errorf("%s was made over no transport", r.Check)
			}
		}
	})
	tcpOften, quicOften := start(t, often), start(t, certify, often)
	for _, w := range ways {
		pings.Go(func() { // all at once, as they only wait
			o := w.of(tcpOften, quicOften)
			o.Only = ofPings
			w.passed(t, o, nil, &made)
		})
		t.Run(w.endpoint+" "+w.encoding.String(), func(t *testing.T) {
			t.Parallel()
			o := w.of(tcp, quic)
			o.Patience = time.Second
			w.passed(t, o, ofPings, &made)
		})
	}
	pings.Wait()
}

// ofAnother matches why a check is for another transport or encoding.
var ofAnother = regexp.MustCompile(`^needs (WebSocket|an HTTP stream|SSE|HTTP streaming|WebTransport|SockJS|JSON|Protobuf|messages in frames)(, messages in frames)?$`)

// TestSkipped: what a server does not offer is skipped with the reason, and not passed.
func TestSkipped(t *testing.T) {
	t.Parallel()
	o := start(t)
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
		"pings.interval":      "the server pings every 25s: two of them take longer than --patience",
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
