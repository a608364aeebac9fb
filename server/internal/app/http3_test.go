package app

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	wt "github.com/quic-go/webtransport-go"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/transport/webtransport/wtlink"
)

// overHTTP3 has HTTP/3 and WebTransport on the external listener, and the internal one without TLS.
func overHTTP3(cfg *config.Config) {
	apart(cfg)
	cfg.HTTPServer.TLS, cfg.HTTPServer.TLSExternal = certificate(1), true
	cfg.HTTPServer.HTTP3.Enabled, cfg.WebTransport.Enabled = true, true
}

// client3 returns an HTTP/3 client.
func client3(t *testing.T) *http.Client {
	tr := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(func() { tr.Close() })
	return &http.Client{Transport: tr, Timeout: wait.Limit}
}

// session opens a WebTransport session, and returns the status of the answer.
func (s *testServer) session(query string, header http.Header) (*wt.Session, int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), wait.Limit)
	defer cancel()
	tr := &wt.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		QUICConfig: &quic.Config{EnableDatagrams: true, EnableStreamResetPartialDelivery: true}}
	res, session, err := tr.Dial(ctx, "https://"+s.app.Addr("external")+"/connection/webtransport"+query, header) //nolint:bodyclose // the session ends the stream
	if res == nil {
		s.t.Fatal(err)
	}
	if err == nil {
		s.t.Cleanup(func() { session.CloseWithError(0, "") })
	}
	return session, res.StatusCode
}

// line is a client of a session's stream, in JSON.
type line struct {
	t      *testing.T
	stream *wt.Stream
	r      *bufio.Reader
}

func (s *testServer) line(session *wt.Session) *line {
	s.t.Helper()
	stream := must(session.OpenStream())
	_ = stream.SetReadDeadline(time.Now().Add(wait.Limit))
	return &line{s.t, stream, bufio.NewReader(stream)}
}

// ask sends a line, and returns the next one.
func (l *line) ask(text string) string {
	l.t.Helper()
	must(io.WriteString(l.stream, text+"\n"))
	return l.next()
}

func (l *line) next() string {
	l.t.Helper()
	text, err := l.r.ReadString('\n')
	if err != nil {
		l.t.Fatal(err)
	}
	return strings.TrimSpace(text)
}

// TestHTTP3: every endpoint answers over HTTP/3 as it does over TCP, where the answers tell of it.
func TestHTTP3(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		overHTTP3(cfg)
		cfg.HTTPAPI.External = true
	})
	base := "https://" + s.app.Addr("external")
	_, port, _ := net.SplitHostPort(s.app.Addr("external"))
	tcp := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	defer tcp.CloseIdleConnections()
	udp := client3(t)
	for path, want := range map[string]string{
		"/connection/init": "200 200", "/connection/websocket": "400 400", "/connection/webtransport": "400 405",
		"/api": "405 405", "/api/info": "405 405", "/health": "404 404", "/nothing": "404 404",
	} {
		var got []string
		for _, c := range []*http.Client{tcp, udp} {
			res, err := c.Get(base + path)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			got = append(got, fmt.Sprint(res.StatusCode))
			advertised := res.Header.Get("Alt-Svc")
			if c == tcp && advertised != `h3=":`+port+`"; ma=86400` || c == udp && (advertised != "" || res.ProtoMajor != 3) {
				t.Errorf("%s over %s: Alt-Svc %q", path, res.Proto, advertised)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", path, got, want)
		}
	}
	req := must(http.NewRequest(http.MethodPost, base+"/api/publish", strings.NewReader(`{"channel":"a","data":1}`)))
	req.Header.Set("X-API-Key", apiKey)
	if status, body := do(t, udp, req); status != http.StatusOK || body != `{"result":{}}` {
		t.Errorf("publish over HTTP/3: %d %s", status, body)
	}
	s.awaitLog(`"http3":true`)
}

// TestAlternativeServices: every answer over TLS tells of HTTP/3, whether a loop, another route of the
// front or net/http gives it, and also refusals.
func TestAlternativeServices(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		overHTTP3(cfg)
		cfg.HTTPAPI.External, cfg.SockJS.Enabled = true, true
		cfg.HTTPStream.Enabled, cfg.SSE.Enabled = true, true
		cfg.UniWebSocket.Enabled, cfg.UniSSE.Enabled, cfg.UniHTTPStream.Enabled, cfg.UniPoll.Enabled = true, true, true, true
		cfg.Client.AllowedOrigins, cfg.Client.AllowAnonymousConnect = []string{"https://app.example"}, true
		o := &cfg.Channel.WithoutNamespace
		o.AllowSubscribeForAnonymous, o.HistorySize, o.HistoryTTL, o.ForceRecovery = true, 10, time.Minute, true
	})
	const (
		upgrade   = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
		foreign   = "Origin: https://elsewhere.example\r\n"
		byNetHTTP = "Trailer: A\r\n" // the front leaves such requests to net/http
		key       = "X-API-Key: " + apiKey + "\r\n"
		connect   = `{"id":1,"connect":{}}`
	)
	for _, r := range []struct {
		target, fields, body string
		status               int
	}{
		{"GET /connection/websocket", upgrade, "", 101},
		{"GET /connection/websocket", upgrade + byNetHTTP, "", 101},
		{"GET /connection/websocket", upgrade + foreign, "", 403},
		{"GET /connection/websocket", upgrade + foreign + byNetHTTP, "", 403},
		{"GET /connection/uni_websocket", upgrade, "", 101},
		{"POST /connection/http_stream", "", connect, 200},
		{"POST /connection/http_stream", byNetHTTP, connect, 200},
		{"POST /connection/http_stream", "", strings.Repeat("x", 70_000), 413},
		{"GET /connection/sse?cf_connect=" + url.QueryEscape(connect), "", "", 200},
		{"GET /connection/sse", "", "", 400},
		{"GET /connection/uni_sse", "", "", 200},
		{"POST /connection/uni_http_stream", "", "{}", 200},
		{"POST /connection/uni_poll", "", `{"subs":{"a":{}}}`, 403},
		{"POST /emulation", "", `{"node":"none","session":"s","data":"{}"}`, 404},
		{"POST /emulation", byNetHTTP, `{"node":"none","session":"s","data":"{}"}`, 404},
		{"POST /emulation", "", "garbage", 400},
		{"OPTIONS /emulation", "", "", 204},
		{"POST /api/publish", key, `{"channel":"a","data":1}`, 200},
		{"POST /api/publish", key + byNetHTTP, `{"channel":"a","data":1}`, 200},
		{"POST /api/publish", "", `{}`, 401},
		{"GET /connection/sockjs/info", "", "", 200},
		{"GET /nothing", "", "", 404},
	} {
		method, _, _ := strings.Cut(r.target, " ")
		if method == http.MethodPost {
			r.fields += fmt.Sprintf("Content-Length: %d\r\n", len(r.body))
		}
		c := must(tls.Dial("tcp", s.app.Addr("external"), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}))
		_ = c.SetDeadline(time.Now().Add(wait.Limit))
		must(io.WriteString(c, r.target+" HTTP/1.1\r\nHost: a:8443\r\n"+r.fields+"\r\n"+r.body))
		res := must(http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})) //nolint:bodyclose // the connection is closed
		if got := res.Header["Alt-Svc"]; res.StatusCode != r.status || len(got) != 1 || got[0] != `h3=":8443"; ma=86400` {
			t.Errorf("%s %q: %s, Alt-Svc %q", r.target, r.fields, res.Status, got)
		}
		c.Close()
	}
}

// TestNoHTTP3: without the key, no answer tells of it, and nobody listens.
func TestNoHTTP3(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		overHTTP3(cfg)
		cfg.HTTPServer.HTTP3.Enabled, cfg.WebTransport.Enabled = false, false
	})
	tcp := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer tcp.CloseIdleConnections()
	res, err := tcp.Get("https://" + s.app.Addr("external") + "/connection/webtransport")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if got := res.Header.Get("Alt-Svc"); got != "" || res.StatusCode != http.StatusNotFound {
		t.Errorf("%s, Alt-Svc %q", res.Status, got)
	}
	_, err = quic.DialAddr(t.Context(), s.app.Addr("external"), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}},
		&quic.Config{HandshakeIdleTimeout: 50 * time.Millisecond})
	if err == nil {
		t.Error("there is a server")
	}
}

func TestWebTransport(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		overHTTP3(cfg)
		cfg.WebTransport.MessageSizeLimit = 1000
		cfg.Client.AllowedOrigins = []string{"https://app.example"}
		cfg.Channel.WithoutNamespace.AllowSubscribeForClient = true
	})
	if _, status := s.session("", http.Header{"Origin": {"https://elsewhere.example"}}); status != http.StatusForbidden {
		t.Errorf("foreign origin: %d", status)
	}
	session, _ := s.session("", http.Header{"Origin": {"https://app.example"}})
	c := s.line(session)
	if got := c.ask(`{"id":1,"connect":{"token":"` + s.token(jwt.MapClaims{"sub": "u"}) + `"}}`); !strings.HasPrefix(got, `{"id":1,"connect":{"client":`) {
		t.Fatal(got)
	}
	if got := c.ask(`{"id":2,"subscribe":{"channel":"news"}}`); got != `{"id":2,"subscribe":{}}` {
		t.Fatal(got)
	}
	must(s.app.node.Publish(t.Context(), "news", []byte(`"hello"`), nil))
	if got := c.next(); got != `{"push":{"channel":"news","pub":{"data":"hello"}}}` {
		t.Fatal(got)
	}
	if _, text := get(t, "http://"+s.app.Addr("internal")+"/metrics"); !strings.Contains(text, `transport="webtransport"`) {
		t.Errorf("metrics: %s", text)
	}

	second, _ := s.session("", nil)
	d := s.line(second)
	if got := d.ask(strings.Repeat("x", 1001)); got != `{"push":{"disconnect":{"code":3501,"reason":"message size limit exceeded"}}}` {
		t.Error(got)
	}
	second.CloseWithError(0, "")
	s.awaitLog(`"key":"webtransport.message_size_limit"`, `"key":"client.allowed_origins"`)
	third, _ := s.session("", nil)
	if got := s.line(third).ask(`garbage`); got != `{"push":{"disconnect":{"code":3501,"reason":"bad request"}}}` {
		t.Error(got)
	}

	third.CloseWithError(0, "")

	down := make(chan error, 1)
	go func() { down <- s.app.Shutdown(context.Background()) }()
	if got := c.next(); got != `{"push":{"disconnect":{"code":3001,"reason":"shutdown"}}}` {
		t.Error(got)
	}
	if _, err := c.r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	session.CloseWithError(0, "")
	if err := <-down; err != nil {
		t.Error(err)
	}
}

// TestWebTransportClient: the client for Go, over WebTransport, recovers what was published while it had no connection.
func TestWebTransportClient(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		overHTTP3(cfg)
		o := &cfg.Channel.WithoutNamespace
		o.AllowSubscribeForClient, o.HistorySize, o.HistoryTTL, o.ForceRecovery = true, 10, time.Minute, true
	})
	publish := func(ch string, n int) {
		req := must(http.NewRequest(http.MethodPost, "http://"+s.app.Addr("internal")+"/api/publish", strings.NewReader(fmt.Sprintf(`{"channel":%q,"data":%d}`, ch, n))))
		req.Header.Set("X-API-Key", apiKey)
		if status, answer := do(t, http.DefaultClient, req); status != http.StatusOK || strings.Contains(answer, `"error"`) {
			t.Fatal(status, answer)
		}
	}
	for _, e := range []protocol.Encoding{protocol.JSON, protocol.Protobuf} {
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
		defer cancel()
		c := must(client.NewOver(wtlink.WebTransport("https://"+s.app.Addr("external")+"/connection/webtransport"), client.Options{
			Token: s.token(jwt.MapClaims{"sub": e.String()}), Encoding: e, TLS: &tls.Config{InsecureSkipVerify: true},
			MinDelay: time.Millisecond, MaxDelay: time.Millisecond,
		}))
		defer c.Close()
		ch := "news" + e.String()
		sub := must(c.NewSubscription(ch, nil))
		publications := sub.Publications(ctx)
		sub.Subscribe()
		if err := errors.Join(c.Connect(ctx), sub.Ready(ctx)); err != nil {
			t.Fatal(err)
		}
		n := 0
		for range 3 {
			publish(ch, n)
			if err := s.app.node.Users().Disconnect(ctx, gyro.Target{User: e.String()}, &gyro.DisconnectOptions{Disconnect: &protocol.DisconnectForceReconnect}); err != nil {
				t.Fatal(err)
			}
			publish(ch, n+1)
			n += 2
		}
		next := 0
		for p, err := range publications {
			if err != nil || string(p.Data) != fmt.Sprint(next) {
				t.Fatalf("%s, %v, want %d", p.Data, err, next)
			}
			if next++; next == n {
				break
			}
		}
		if next < n {
			t.Fatalf("%d of %d publications", next, n)
		}
	}
}

// TestWebTransportLimit: sessions count as connections do.
func TestWebTransportLimit(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) { overHTTP3(cfg); cfg.Client.ConnectionLimit = 1 })
	first, _ := s.session("", nil)
	s.line(first).ask(`{"id":1,"connect":{"token":"` + s.token(jwt.MapClaims{"sub": "u"}) + `"}}`)
	if _, status := s.session("", nil); status != http.StatusServiceUnavailable {
		t.Errorf("status %d", status)
	}
	first.CloseWithError(0, "")
}
