package app

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/testkit/certtest"
	_ "github.com/gyrohq/gyro/server/internal/web/xconnect"
)

// everything enables all endpoints of this version.
func everything(cfg *config.Config) {
	cfg.Health.Enabled, cfg.Init.Enabled, cfg.Debug.Enabled, cfg.Prometheus.Enabled, cfg.Swagger.Enabled = true, true, true, true, true
}

// apart gives internal endpoints a listener of their own: another address, so that
// both can have any port.
func apart(cfg *config.Config) {
	everything(cfg)
	cfg.HTTPServer.InternalAddress = "127.0.0.2"
}

// statuses asks all paths of a listener.
func statuses(t *testing.T, base string) string {
	t.Helper()
	var out []string
	for _, path := range []string{
		"/connection/websocket", "/connection/init", "/api", "/api/info", "/health", "/debug/pprof/", "/debug/pprof/goroutine",
		"/metrics", "/swagger", "/swagger/openapi.json",
	} {
		status, _ := get(t, base+path)
		out = append(out, strconv.Itoa(status))
	}
	return strings.Join(out, " ")
}

func TestListeners(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name               string
		edit               func(*config.Config)
		external, internal string
	}{
		{"one", everything, "400 200 405 405 200 200 200 200 200 200", ""},
		{"apart", apart, "400 200 404 404 404 404 404 404 404 404", "404 404 405 405 200 200 200 200 200 200"},
		{"external API", func(cfg *config.Config) { apart(cfg); cfg.HTTPAPI.External = true },
			"400 200 405 405 404 404 404 404 404 404", "404 404 404 404 200 200 200 200 200 200"},
		{"nothing internal", func(cfg *config.Config) {
			cfg.HTTPServer.InternalAddress, cfg.HTTPAPI.Disabled = "127.0.0.2", true
		}, "400 404 404 404 404 404 404 404 404 404", ""},
		{"defaults", nil, "400 404 405 405 404 404 404 404 404 404", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, tt.edit)
			if got := statuses(t, s.url("")); got != tt.external {
				t.Errorf("external: got %s, want %s", got, tt.external)
			}
			addr := s.app.Addr("internal")
			if (addr == "") != (tt.internal == "") {
				t.Fatalf("internal listener is %q", addr)
			}
			if addr == "" {
				return
			}
			if got := statuses(t, "http://"+addr); got != tt.internal {
				t.Errorf("internal: got %s, want %s", got, tt.internal)
			}
		})
	}
}

// TestPaths: exact matches, prefixes that look odd, and conflicts.
func TestPaths(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		everything(cfg)
		cfg.WebSocket.HandlerPrefix = "/"
		cfg.Health.HandlerPrefix = "/a/{id}//"
		cfg.HTTPAPI.HandlerPrefix = "/v1/api/"
		cfg.Debug.HandlerPrefix = "debug"
		cfg.Swagger.HandlerPrefix = "/v1//"
	})
	for path, want := range map[string]int{
		"/": 400, "/x": 404, "/a/%7Bid%7D": 200, "/a/1": 404, "/a/%7Bid%7D/": 404, "/v1/api": 405, "/v1/api/info": 405,
		"/v1/api/nothing": 404, "/debug": 200, "/debug/": 200, "/debug/cmdline": 200, "/debug/nothing": 404, "/v1": 200, "/v1/openapi.json": 200, "/v1/nothing": 404, "//": 404, "/../": 404,
	} {
		if got, _ := get(t, s.url(path)); got != want {
			t.Errorf("%s: got %d, want %d", path, got, want)
		}
	}
	wstest.Dial(t, s.url("/"), nil)
	for _, tt := range []struct {
		edit func(*config.Config)
		want string
	}{
		{func(cfg *config.Config) { cfg.Health.HandlerPrefix = "/api/publish/" }, `http_api.handler_prefix: path "/api/publish" is taken`},
		{func(cfg *config.Config) { cfg.Init.HandlerPrefix = "/connection/websocket" }, `init.handler_prefix: path "/connection/websocket" is taken`},
		{func(cfg *config.Config) { cfg.Prometheus.HandlerPrefix = "/health" }, `prometheus.handler_prefix: path "/health" is taken`},
		{func(cfg *config.Config) { cfg.Debug.HandlerPrefix = "/health" }, `debug.handler_prefix: path "/health" is taken`},
		{func(cfg *config.Config) { cfg.WebSocket.HandlerPrefix = "/a?b" }, `websocket.handler_prefix: "/a?b" is not a path`},
		{func(cfg *config.Config) { cfg.HTTPAPI.HandlerPrefix = "/a b" }, `http_api.handler_prefix: "/a b" is not a path`},
	} {
		cfg := testConfig(everything)
		tt.edit(cfg)
		_, err := New(cfg, Options{Logger: discard})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

// TestAPIAtRoot: the legacy endpoint then owns what nobody else does, other trees excepted.
func TestAPIAtRoot(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		everything(cfg)
		cfg.HTTPAPI.HandlerPrefix = "/"
	})
	for path, want := range map[string]int{"/": 405, "/publish": 405, "/x/y": 405, "/health": 200, "/debug/pprof/cmdline": 200, "/debug/pprof/x": 404} {
		if got, _ := get(t, s.url(path)); got != want {
			t.Errorf("%s: got %d, want %d", path, got, want)
		}
	}
	for _, path := range []string{"/", "/x", "/api"} {
		if status, body := s.post(path, `{"method":"publish","params":{"channel":"a","data":1}}`); status != http.StatusOK || body != `{"result":{}}` {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	s.connect("u")
}

// certificate makes a self-signed certificate with a serial number.
func certificate(n int64) config.ListenerTLS {
	pair, t := certtest.SelfSigned(n), config.DefaultConfig().HTTPServer.TLS
	t.Enabled, t.CertPEM, t.KeyPEM = true, config.PEM(pair.Certificate), config.PEM(pair.Key)
	return t
}

// serial is the serial number of the certificate that a listener shows; 0 for a
// listener without TLS.
func serial(t *testing.T, addr string) int64 {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		if !errors.As(err, new(tls.RecordHeaderError)) {
			t.Fatal(err)
		}
		return 0
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func TestTLS(t *testing.T) {
	t.Parallel()
	one, two := certificate(1), certificate(2)
	for _, tt := range []struct {
		name               string
		edit               func(*config.HTTPServer)
		external, internal int64
	}{
		{"none", func(*config.HTTPServer) {}, 0, 0},
		{"both", func(h *config.HTTPServer) { h.TLS = one }, 1, 1},
		{"external", func(h *config.HTTPServer) { h.TLS, h.TLSExternal = one, true }, 1, 0},
		{"each its own", func(h *config.HTTPServer) { h.TLS, h.InternalTLS = one, two }, 1, 2},
		{"internal only", func(h *config.HTTPServer) { h.InternalTLS = two }, 0, 2},
		{"internal_tls wins", func(h *config.HTTPServer) { h.TLS, h.InternalTLS, h.TLSExternal = one, two, true }, 1, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t, func(cfg *config.Config) { apart(cfg); tt.edit(&cfg.HTTPServer) })
			if got := serial(t, s.app.Addr("external")); got != tt.external {
				t.Errorf("external: got %d, want %d", got, tt.external)
			}
			if got := serial(t, s.app.Addr("internal")); got != tt.internal {
				t.Errorf("internal: got %d, want %d", got, tt.internal)
			}
		})
	}
}

// TestSecureWebSocket: over TLS, by HTTP/1.1 and by extended CONNECT of HTTP/2.
func TestSecureWebSocket(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) { cfg.HTTPServer.TLS = certificate(1) })
	url := "https://" + s.app.Addr("external") + "/connection/websocket?cf_protocol=protobuf"
	for _, c := range []*wstest.Client{wstest.Dial(t, url, nil), wstest.Over(t, url, connectH2(t, url))} {
		res := c.Connect(s.tokenField(jwt.MapClaims{"sub": "u", "channels": []string{"a"}}))
		if res.Subs["a"] == nil {
			t.Errorf("got %+v", res)
		}
		if _, err := s.app.Node().Publish(t.Context(), "a", []byte("{}"), nil); err != nil {
			t.Fatal(err)
		}
		c.Pub()
	}
}

// stream is a WebSocket connection inside of HTTP/2.
type stream struct {
	io.ReadCloser
	io.Writer
}

// connectH2 opens one. http.Transport refuses the header field :protocol, the
// HTTP/2 connections of net/http take it.
func connectH2(t *testing.T, url string) io.ReadWriteCloser {
	t.Helper()
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodConnect, url, r)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", req.URL.Host, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	tr := &http.Transport{ForceAttemptHTTP2: true}
	_ = tr.Clone() // fills TLSNextProto
	req.Header = http.Header{":protocol": {"websocket"}, "Sec-Websocket-Version": {"13"}}
	res, err := tr.TLSNextProto["h2"](req.URL.Host, conn).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		t.Fatalf("answer: %s", res.Status)
	}
	return stream{res.Body, w}
}

// TestH2C: HTTP/2 without TLS, on the external listener alone. (The option needs
// an internal port, here one that is not served.)
func TestH2C(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		cfg.Init.Enabled = true
		cfg.HTTPServer.H2CExternal, cfg.HTTPServer.InternalPort, cfg.HTTPAPI.Disabled = true, "1", true
	})
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr}).Get(s.url("/connection/init"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.ProtoMajor != 2 || res.StatusCode != http.StatusOK {
		t.Errorf("answer: %s %s", res.Proto, res.Status)
	}
	s.dial(nil) // HTTP/1.1 still works
}

// TestOrigins: who may connect, and who may read answers, by the origin of the page.
func TestOrigins(t *testing.T) {
	t.Parallel()
	const app = "https://app.example"
	for _, tt := range []struct {
		allowed []string
		origin  string
		want    bool
	}{
		{nil, "", true},
		{nil, app, false},
		{[]string{"*"}, app, true},
		{[]string{app}, "https://APP.example", true},
		{[]string{app}, "https://app.example.evil.example", false},
		{[]string{app}, "null", false},
		{[]string{"https://App.example"}, "https://App.example", true},
		{[]string{"*.example"}, "https://a.b.example", true},
	} {
		s := startServer(t, func(cfg *config.Config) {
			cfg.Client.AllowedOrigins, cfg.Init.Enabled = tt.allowed, true
		})
		header := http.Header{}
		if tt.origin != "" {
			header.Set("Origin", tt.origin)
		}
		c, status := wstest.Handshake(t, s.url("/connection/websocket"), header)
		if (c != nil) != tt.want || c == nil && status != http.StatusForbidden {
			t.Errorf("%q among %q: WebSocket answers %d", tt.origin, tt.allowed, status)
		}
		if refusal := "connection refused: its origin is not allowed"; !tt.want {
			s.awaitLog(refusal)
		} else if strings.Contains(s.logged(), refusal) {
			t.Errorf("%q among %q: logged as refused", tt.origin, tt.allowed)
		}
		checkInitOrigin(t, s, tt.origin, tt.want && tt.origin != "")
	}
}

func checkInitOrigin(t *testing.T, s *testServer, origin string, want bool) {
	t.Helper()
	req := must(http.NewRequest(http.MethodGet, s.url("/connection/init"), nil))
	req.Header.Set("Origin", origin)
	req.Header.Set("Access-Control-Request-Headers", "X-A")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	allowOrigin, allowCredentials, allowHeaders := "", "", ""
	if want {
		allowOrigin, allowCredentials, allowHeaders = origin, "true", "X-A"
	}
	h := res.Header
	if res.StatusCode != http.StatusOK || h.Get("Access-Control-Allow-Origin") != allowOrigin ||
		h.Get("Access-Control-Allow-Credentials") != allowCredentials || h.Get("Access-Control-Allow-Headers") != allowHeaders {
		t.Errorf("init for %q: %s %v", origin, res.Status, h)
	}
}

// TestStartFails: the second listener cannot be opened, the first one is closed
// again, and the error names address and section.
func TestStartFails(t *testing.T) {
	t.Parallel()
	taken := must(net.Listen("tcp", "127.0.0.1:0"))
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	cfg := testConfig(nil)
	cfg.HTTPServer.InternalPort = port
	a := must(New(cfg, Options{Logger: discard}))
	err := a.Start(context.Background())
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "http_server: internal listener: listen tcp "+taken.Addr().String()) {
		t.Errorf("got %v", err)
	}
	if _, err := net.Dial("tcp", a.Addr("external")); err == nil {
		t.Error("the external listener is still open")
	}
	if err := a.Shutdown(t.Context()); err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

func TestIPv6(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"::1", "[::1]"} {
		cfg := testConfig(nil)
		cfg.HTTPServer.Address = address
		a := must(New(cfg, Options{Logger: discard}))
		if err := a.Start(context.Background()); err != nil {
			if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
				t.Skip(err)
			}
			t.Fatal(err)
		}
		wstest.Dial(t, "http://"+a.Addr("external")+"/connection/websocket", nil)
		if err := a.Shutdown(t.Context()); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	}
}
