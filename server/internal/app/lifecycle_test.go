package app

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/config/engines"
	"github.com/gyrohq/gyro/server/internal/web"
)

// TestReload: what takes effect, and what does not.
func TestReload(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		cfg.Client.SubscriptionToken.Enabled = true
		cfg.Client.SubscriptionToken.HMACSecretKey = tokenSecret
	})
	c := s.connect("u")
	outcomes := func() string {
		fresh, _ := s.dial(nil).Outcome(`"connect":{` + s.tokenField(jwt.MapClaims{"sub": "u"}) + `}`)
		anonymous, _ := s.dial(nil).Outcome(`"connect":{}`)
		publish, _ := c.Outcome(`"publish":{"channel":"new:a","data":1}`)
		token, _ := c.Outcome(`"subscribe":{"channel":"$a",` + s.tokenField(jwt.MapClaims{"sub": "u", "channel": "$a"}) + `}`)
		if token == "ok" {
			c.Do(`"unsubscribe":{"channel":"$a"}`)
		}
		rpc, _ := c.Outcome(`"rpc":{"method":"ping"}`)
		return strings.Join([]string{fresh, anonymous, publish, token, rpc}, ", ")
	}
	reload := func(edit func(*config.Config)) error {
		return s.app.Reload(testConfig(func(cfg *config.Config) {
			cfg.Client.SubscriptionToken = s.cfg.Client.SubscriptionToken
			edit(cfg)
		}))
	}
	for _, step := range []struct {
		name string
		edit func(*config.Config)
		err  string
		want string
	}{
		{"nothing", func(*config.Config) {}, "", "ok, disconnect 3501, error 102, ok, error 108"},
		{"namespace", func(cfg *config.Config) {
			addNamespace(cfg, "new", func(o *config.ChannelOptions) { o.AllowPublishForClient = true })
		}, "", "ok, disconnect 3501, ok, ok, error 108"},
		{"invalid", func(cfg *config.Config) {
			cfg.Client.AllowAnonymousConnect = true
			addNamespace(cfg, "new", func(o *config.ChannelOptions) { o.HistorySize = 1 })
		}, "channel.namespaces[0](new)", "ok, disconnect 3501, ok, ok, error 108"},
		{"bad key", func(cfg *config.Config) {
			cfg.Client.AllowAnonymousConnect = true
			cfg.Client.SubscriptionToken.RSAPublicKey = "x"
		}, "client.subscription_token.rsa_public_key", "ok, disconnect 3501, ok, ok, error 108"},
		{"flags", func(cfg *config.Config) {
			cfg.Client.Insecure, cfg.RPC.Ping.Enabled = true, true
			addNamespace(cfg, "new", nil)
		}, "", "ok, ok, ok, ok, ok"},
		{"token", func(cfg *config.Config) {
			cfg.Client.Token.HMACSecretKey, cfg.Client.AllowAnonymousConnect = "another", true
		}, "", "disconnect 3500, ok, error 102, ok, error 108"},
		{"subscription token", func(cfg *config.Config) {
			cfg.Client.SubscriptionToken.HMACSecretKey = "another"
		}, "", "ok, disconnect 3501, error 102, error 103, error 108"},
		{"subscription token, no longer enabled", func(cfg *config.Config) {
			cfg.Client.SubscriptionToken = config.SubscriptionToken{}
		}, "", "ok, disconnect 3501, error 102, error 103, error 108"},
	} {
		err := reload(step.edit)
		if (err == nil) != (step.err == "") || err != nil && !strings.Contains(err.Error(), step.err) {
			t.Errorf("%s: error %v, want %q", step.name, err, step.err)
		}
		if got := outcomes(); got != step.want {
			t.Errorf("%s: got  %s\nwant %s", step.name, got, step.want)
		}
	}
}

// TestReloadNot: what waits for a restart.
func TestReloadNot(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		open(&cfg.Channel.WithoutNamespace)
		cfg.Client.UserIDHTTPHeader = "X-User"
	})
	err := s.app.Reload(testConfig(func(cfg *config.Config) {
		open(&cfg.Channel.WithoutNamespace)
		cfg.Channel.MaxLength, cfg.Client.ChannelLimit = 1, 1
		cfg.Client.AllowedOrigins = []string{"https://a.example"}
		cfg.Client.SubscriptionToken.Enabled = true
		cfg.HTTPAPI.External, cfg.WebSocket.Disabled, cfg.Health.Enabled = true, true, true
		cfg.Client.ConnectionLimit, cfg.UsageStats.Disabled, cfg.Channel.WithoutNamespace.AllowPublishForClient = 1, true, true
		cfg.Brokers = []engines.NamedBroker{{Name: "late", Broker: cfg.Broker}}
	}))
	if err != nil {
		t.Fatal(err)
	}
	c := s.dial(http.Header{"X-User": {"u"}})
	c.Connect("")
	c.Subscribe("long-name", "")
	c.Subscribe("$a", s.tokenField(jwt.MapClaims{"sub": "u", "channel": "$a"}))
	s.api("info", "{}")
	if status, _ := get(t, s.url("/health")); status != http.StatusNotFound {
		t.Errorf("health: %d", status)
	}
	res, err := http.DefaultClient.Do(&http.Request{Method: http.MethodGet, Header: http.Header{"Origin": {"https://a.example"}},
		URL: must(http.NewRequest(http.MethodGet, s.url("/connection/websocket"), nil)).URL})
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode == http.StatusOK {
		t.Errorf("origin: %s", res.Status)
	}
	s.awaitLog("channel.max_length", "client.channel_limit", "client.allowed_origins", "client.subscription_token.enabled",
		"client.connection_limit", "http_api.external", "websocket.disabled", "health.enabled", "brokers", "user_id_http_header")
	if logs := s.logged(); strings.Contains(logs, "allow_publish") || strings.Contains(logs, "usage_stats") {
		t.Errorf("the log names what takes effect, or never has an effect: %s", logs)
	}
}

// TestReloadConnectionLimit: it changes if connections were limited at start.
func TestReloadConnectionLimit(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limit, rate int
		want        int // statuses after a reload to a limit of 1, with one client
	}{
		"limit":     {2, 0, http.StatusServiceUnavailable},
		"rate":      {0, 1000, http.StatusServiceUnavailable},
		"unlimited": {0, 0, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := func(cfg *config.Config) {
				cfg.Init.Enabled = true
				cfg.Client.ConnectionLimit, cfg.Client.ConnectionRateLimit = tt.limit, tt.rate
			}
			s := startServer(t, start)
			s.connect("u")
			for _, step := range []struct{ limit, want int }{{1, tt.want}, {2, http.StatusOK}, {0, http.StatusOK}} {
				err := s.app.Reload(testConfig(func(cfg *config.Config) {
					start(cfg)
					cfg.Client.ConnectionLimit = step.limit
				}))
				if err != nil {
					t.Fatal(err)
				}
				if status, _ := get(t, s.url("/connection/init")); status != step.want {
					t.Errorf("limit %d: status %d", step.limit, status)
				}
			}
			if named := strings.Contains(s.logged(), `"keys":"client.connection_limit"`); named != (name == "unlimited") {
				t.Errorf("named as what needs a restart: %v", named)
			}
		})
	}
}

// TestLegacyAPIWhileStopping: requests that come in all the same get 503.
func TestLegacyAPIWhileStopping(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	s.app.stopping.Store(true)
	if status, _ := s.post("/api", `{"method":"info"}`); status != http.StatusServiceUnavailable {
		t.Errorf("legacy: %d", status)
	}
	s.api("info", `{}`)
}

// TestShutdown: clients get 3001, and nobody is let in any more.
func TestShutdown(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	c, idle := s.connect("u"), s.dial(nil)
	done := make(chan error, 2)
	for range 2 { // twice at once is fine
		go func() { done <- s.app.Shutdown(t.Context()) }()
	}
	if d := c.Disconnected(); d != protocol.DisconnectShutdown {
		t.Errorf("client ended with %v", d)
	}
	if d := idle.Disconnected(); d != protocol.DisconnectShutdown {
		t.Errorf("client that has not connected ended with %v", d)
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if _, err := net.Dial("tcp", s.app.Addr("external")); err == nil {
		t.Error("the listener is still open")
	}
}

// TestShutdownIsSpread: clients are told to leave over shutdown.drain_time, while the
// others are still served, and the node is not ready any more.
func TestShutdownIsSpread(t *testing.T) {
	t.Parallel()
	const clients = 64
	s := startServer(t, func(cfg *config.Config) {
		cfg.Health.Enabled = true
		cfg.Shutdown.DrainTime, cfg.Shutdown.Timeout = 200*time.Millisecond, time.Minute
	})
	if status, body := get(t, s.url("/health")); status != http.StatusOK || !strings.HasPrefix(body, `{"status":"ok","parts":[{"part":"node",`) {
		t.Errorf("health: %d %s", status, body)
	}
	var all []*wstest.Client
	for range clients {
		all = append(all, s.connect("u"))
	}
	begin := time.Now()
	if err := s.app.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	// All at once is well below, and jitter takes off half of the time at most.
	if took := time.Since(begin); took < 50*time.Millisecond || took > wait.Limit {
		t.Errorf("the drain took %s", took)
	}
	for _, c := range all {
		if d := c.Disconnected(); d != protocol.DisconnectShutdown {
			t.Fatalf("a client ended with %v", d)
		}
	}
	// What probes hear in the meantime.
	w := httptest.NewRecorder()
	web.Ready(s.app.node.Health).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/health", nil))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "shutting down") {
		t.Errorf("health: %d %s", w.Code, w.Body)
	}
}

// TestShutdownDelay: for shutdown.delay the node is not ready, and everything else goes on.
func TestShutdownDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startVirtual(t, func(cfg *config.Config) {
			cfg.Shutdown.Delay = 5 * time.Second
		})
		c := s.pipe()
		c.Connect(s.tokenField(jwt.MapClaims{"sub": "u"}))
		begin := time.Now()
		done := make(chan error, 1)
		go func() { done <- s.app.Shutdown(t.Context()) }()
		time.Sleep(5*time.Second - 1)
		if err := s.app.readiness()(); !errors.Is(err, errShuttingDown) {
			t.Errorf("the node is ready: %v", err)
		}
		s.pipe().Connect(s.tokenField(jwt.MapClaims{"sub": "u"})) // new clients are welcome
		if s.app.stopping.Load() {
			t.Error("requests are refused")
		}
		if d := c.Disconnected(); d != protocol.DisconnectShutdown || time.Since(begin) < 5*time.Second {
			t.Errorf("after %s the client ended with %v", time.Since(begin), d)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestInternalListenerStays: health and metrics can be had until all clients have left.
func TestInternalListenerStays(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		cfg.HTTPServer.InternalPort = fmt.Sprint(must(porttest.Free()))
		cfg.Health.Enabled = true
	})
	open := func(name string) bool {
		c, err := net.Dial("tcp", s.app.Addr(name))
		return err == nil && c.Close() == nil
	}
	drained := make(chan struct{})
	closed := s.app.closeListeners(t.Context(), drained)
	wait.Until(t, "the external listener is closed", func() bool { return !open("external") })
	if status, body := get(t, "http://"+s.app.Addr("internal")+"/health"); status != http.StatusOK {
		t.Errorf("health: %d %s", status, body)
	}
	close(drained)
	if err := closed(); err != nil {
		t.Error(err)
	}
	if open("internal") {
		t.Error("the internal listener is still open")
	}
}

func TestDelayOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		delay  time.Duration
		health bool
		nodes  int
		want   time.Duration
	}{
		{0, true, 1, 0}, {0, true, 2, 3 * time.Second}, {0, false, 2, 0}, {-1, true, 2, -1}, {time.Second, false, 1, time.Second}, {time.Hour, true, 2, 10 * time.Second},
	} {
		cfg := config.DefaultConfig()
		cfg.Health.Enabled, cfg.Shutdown.Delay, cfg.Shutdown.Timeout = c.health, c.delay, 40*time.Second
		if got := delayOf(cfg, c.nodes); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestShutdownSilent: a shutdown does not wait for connections that never sent
// anything, or it would take seconds.
func TestShutdownSilent(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*config.Config){
		"loops":      func(*config.Config) {},
		"goroutines": func(cfg *config.Config) { cfg.WebSocket.GoroutineDriver = true },
		"TLS":        func(cfg *config.Config) { cfg.HTTPServer.TLS = certificate(1) },
		"handshake":  func(cfg *config.Config) { cfg.HTTPServer.TLS, cfg.WebSocket.GoroutineDriver = certificate(1), true },
		"net/http":   func(cfg *config.Config) { cfg.HTTPServer.TLS, cfg.WebSocket.GoroutineDriver = certificate(1), true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, edit)
			nc := must(net.Dial("tcp", s.app.Addr("external")))
			defer nc.Close()
			if name == "net/http" { // which gets connections after the handshake
				secure := tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
				must(0, secure.Handshake())
				nc = secure
			}
			scheme := "http"
			if s.cfg.HTTPServer.TLS.Enabled {
				scheme = "https"
			}
			wstest.Dial(t, scheme+"://"+s.app.Addr("external")+"/connection/websocket", nil) // accepted later, so the first one is known
			l := s.app.listeners[0]
			known := l.Silent
			if name == "net/http" {
				wait.Until(t, "the connection at net/http", func() bool { return known() == 1 })
			} else if n := known(); n > 0 {
				t.Fatalf("net/http has %d silent connections", n)
			}
			if err := s.app.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := nc.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the silent connection ended with %v", err)
			}
			// Nothing but the hook closes it: net/http does so after 5 s only.
			ours, theirs := net.Pipe()
			l.Server.ConnState(ours, http.StateNew)
			if _, err := theirs.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("a late connection ended with %v", err)
			}
		})
	}
}

// TestShutdownTimeout: what does not end by itself is cut off.
func TestShutdownTimeout(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	conn := must(net.Dial("tcp", s.app.Addr("external")))
	defer conn.Close()
	fmt.Fprintf(conn, "POST /api/info HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n", apiKey)
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("%q %v", line, err) // the handler waits for the body now
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.app.Shutdown(ctx); err == nil || !strings.Contains(err.Error(), "external listener: context deadline exceeded") {
		t.Errorf("got %v", err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(wait.Limit))
	if _, err := io.Copy(io.Discard, conn); os.IsTimeout(err) {
		t.Error("the connection is still open")
	}
}

// TestShutdownUnstarted: without Start there is nothing to end.
func TestShutdownUnstarted(t *testing.T) {
	t.Parallel()
	a := must(New(testConfig(nil), Options{Logger: discard}))
	for range 2 {
		if err := a.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if a.Addr("external") != "" {
		t.Error("there is an address")
	}
}

// TestNewFails: errors of the configuration name the key. Check finds what New finds.
func TestNewFails(t *testing.T) {
	t.Parallel()
	nowhere := t.TempDir() + "/none"
	for key, edit := range map[string]func(*config.Config){
		"client.token.rsa_public_key":                func(cfg *config.Config) { cfg.Client.Token.RSAPublicKey = "x" },
		"client.subscription_token.ecdsa_public_key": func(cfg *config.Config) { cfg.Client.SubscriptionToken = badKey },
		"client.token.audience_regex":                func(cfg *config.Config) { cfg.Client.Token.AudienceRegex = "(" },
		"client.allowed_origins":                     func(cfg *config.Config) { cfg.Client.AllowedOrigins = []string{"["} },
		"client.pong_timeout":                        func(cfg *config.Config) { cfg.Client.PongTimeout = time.Hour },
		"client.channel_limit":                       func(cfg *config.Config) { cfg.Client.ChannelLimit = -1 },
		"client.queue_max_size":                      func(cfg *config.Config) { cfg.Client.QueueMaxSize = -1 },
		"channel.max_length":                         func(cfg *config.Config) { cfg.Channel.MaxLength = -1 },
		"http_api.error_mode":                        func(cfg *config.Config) { cfg.HTTPAPI.ErrorMode = "x" },
		"http_server.tls.cert_pem":                   func(cfg *config.Config) { cfg.HTTPServer.TLS.Enabled = true },
		"http_server.internal_tls.cert_pem":          func(cfg *config.Config) { cfg.HTTPServer.InternalTLS.Enabled = true },
		"http_server.h2c_external":                   func(cfg *config.Config) { cfg.HTTPServer.H2CExternal = true },
		"client.proxy.connect.endpoint":              func(cfg *config.Config) { cfg.Client.Proxy.Connect.Enabled = true },
		"channel.proxy.publish.endpoint":             func(cfg *config.Config) { cfg.Channel.WithoutNamespace.PublishProxyEnabled = true },
		"http_stream.handler_prefix": func(cfg *config.Config) {
			cfg.SSE.Enabled, cfg.HTTPStream.Enabled, cfg.SSE.HandlerPrefix, cfg.HTTPStream.HandlerPrefix = true, true, "/same", "/same"
		},
		"admin.web_path": func(cfg *config.Config) {
			cfg.Admin.Enabled, cfg.Admin.Password, cfg.Admin.Secret, cfg.Admin.WebPath = true, apiKey, apiKey, nowhere
		},
	} {
		_, err := New(testConfig(edit), Options{Logger: discard})
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: got %v", key, err)
		}
		cfg := testConfig(edit)
		if checked := errors.Join(cfg.Validate(), Check(cfg)); checked == nil || !strings.Contains(checked.Error(), key) {
			t.Errorf("%s: Check answers %v", key, checked)
		}
	}
	// Values that switch something off, or make no difference, are fine.
	if err := Check(testConfig(func(cfg *config.Config) {
		c := &cfg.Client
		c.Concurrency, c.PresenceInterval, c.PositionCheckDelay, c.StaleCloseDelay = -1, -1, -1, -1
		c.HistoryMaxLimit, c.RecoveryMaxLimit, c.ConnectionLimit, c.ConnectionRateLimit, c.UserConnectionLimit = -1, -1, -1, -1, -1
	})); err != nil {
		t.Error(err)
	}
}

// TestMistakesTogether: one look tells several mistakes.
func TestMistakesTogether(t *testing.T) {
	t.Parallel()
	err := Check(testConfig(func(cfg *config.Config) {
		cfg.HTTPServer.TLSAutocert.Enabled = true
		cfg.WebSocket.Dictionaries = []config.Dictionary{{Name: "d", Encoding: "json", File: t.TempDir() + "/none"}}
	}))
	if err == nil || !strings.Contains(err.Error(), "http_server.tls_autocert.host_whitelist: ") || !strings.Contains(err.Error(), "websocket.dictionaries") {
		t.Errorf("got %v", err)
	}
}

// TestBadVariables: a variable of OpenTelemetry that cannot be used is found by New, and so by Check.
func TestBadVariables(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "carrier-pigeon")
	err := Check(testConfig(func(cfg *config.Config) { cfg.OpenTelemetry.Enabled, cfg.OpenTelemetry.Metrics = true, true }))
	if err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL") {
		t.Errorf("got %v", err)
	}
}

var badKey = config.SubscriptionToken{Enabled: true, Token: config.Token{ECDSAPublicKey: "x"}}

// TestAccessLog: one line per request at debug level, without its query, with a number of milliseconds and of bytes.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) { cfg.Health.Enabled = true })
	req := must(http.NewRequest(http.MethodGet, s.url("/health?secret-query"), nil))
	req.Header.Set("X-Forwarded-For", "192.0.2.7")
	do(t, http.DefaultClient, req)
	s.dial(nil).Vanish()
	const answer = `{"result":{}}`
	if got := s.api("publish", `{"channel":"a","data":1}`); got != answer {
		t.Errorf("%s", got)
	}
	s.stop() // requests are logged when they are over
	logs := s.logs.String()
	for _, want := range []string{`"method":"GET","status":200,"path":"/health","addr":"192.0.2.7"`, `"status":101,"path":"/connection/websocket","addr":"127.0.0.1:`} {
		if !strings.Contains(logs, want) {
			t.Errorf("no %s in %s", want, logs)
		}
	}
	if strings.Contains(logs, "secret-query") {
		t.Errorf("query in the log: %s", logs)
	}
	for line := range strings.Lines(logs) {
		var l struct {
			Message, Path string
			Duration      *float64 `json:"duration_ms"`
			Bytes         *int     `json:"response_bytes"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Message != "request" {
			continue
		}
		if socket := l.Path == "/connection/websocket"; l.Duration == nil || (l.Bytes == nil) != socket || l.Path == "/api/publish" && *l.Bytes != len(answer) || l.Path == "/health" && *l.Bytes < 10 {
			t.Errorf("line %s", line)
		}
	}
}
