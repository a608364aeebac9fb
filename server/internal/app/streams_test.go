package app

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/config"
)

// streaming switches all HTTP streams on.
func streaming(cfg *config.Config) {
	cfg.SSE.Enabled, cfg.HTTPStream.Enabled, cfg.UniSSE.Enabled, cfg.UniHTTPStream.Enabled = true, true, true, true
	cfg.Channel.WithoutNamespace.AllowSubscribeForClient = true
	cfg.Channel.WithoutNamespace.AllowPublishForSubscriber = true
}

// httpClient is a client of an HTTP stream: the answer to a request that opened one.
type httpClient struct {
	s       *testServer
	res     *http.Response
	lines   *bufio.Reader
	prefix  string // of each line
	connect *protocol.ConnectResult
}

// openStream opens a stream.
func (s *testServer) openStream(req *http.Request) *httpClient {
	s.t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = res.Body.Close() })
	return &httpClient{s: s, res: res, lines: bufio.NewReader(res.Body)}
}

func (s *testServer) newRequest(method, path, body string, fields ...string) *http.Request {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url(path), strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	return req
}

// httpStream connects a user by http_stream.
func (s *testServer) httpStream(user string) *httpClient {
	s.t.Helper()
	c := s.openStream(s.newRequest(http.MethodPost, "/connection/http_stream", `{"id":1,"connect":{`+s.tokenField(jwt.MapClaims{"sub": user})+`}}`))
	return c.connected()
}

// sse connects a user by sse.
func (s *testServer) sse(user string) *httpClient {
	s.t.Helper()
	query := url.Values{"cf_connect": {`{"id":1,"connect":{` + s.tokenField(jwt.MapClaims{"sub": user}) + `}}`}}
	c := s.openStream(s.newRequest(http.MethodGet, "/connection/sse?"+query.Encode(), ""))
	c.prefix = "data: "
	return c.connected()
}

func (c *httpClient) connected() *httpClient {
	c.s.t.Helper()
	if c.res.StatusCode != http.StatusOK {
		c.s.t.Fatal(c.res.Status)
	}
	var reply protocol.Reply
	if line := c.next(); json.Unmarshal([]byte(line), &reply) != nil || reply.Connect == nil || reply.Connect.Session == "" {
		c.s.t.Fatalf("%q", line)
	}
	c.connect = reply.Connect
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.secrets = append(c.s.secrets, c.connect.Session)
	return c
}

// next returns the next message.
func (c *httpClient) next() string {
	c.s.t.Helper()
	for {
		line, err := c.lines.ReadString('\n')
		if err != nil {
			c.s.t.Fatalf("%q, %v", line, err)
		}
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			text, ok := strings.CutPrefix(line, c.prefix)
			if !ok {
				c.s.t.Fatalf("%q has no %q", line, c.prefix)
			}
			return text
		}
	}
}

func (c *httpClient) want(messages ...string) {
	c.s.t.Helper()
	for _, want := range messages {
		if got := c.next(); got != want {
			c.s.t.Errorf("got %s, want %s", got, want)
		}
	}
}

// emulation is the body of an emulation request.
func emulation(node, session string, lines ...string) string {
	data, _ := json.Marshal(strings.Join(lines, "\n"))
	return fmt.Sprintf(`{"node":%q,"session":%q,"data":%s}`, node, session, data)
}

// emulate sends commands and returns the whole answer.
func (s *testServer) emulate(body string, fields ...string) string {
	s.t.Helper()
	res, err := http.DefaultClient.Do(s.newRequest(http.MethodPost, "/emulation", body, fields...))
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	res.Header.Del("Date")
	text, err := httputil.DumpResponse(res, true)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func (c *httpClient) send(lines ...string) {
	c.s.t.Helper()
	if a := c.s.emulate(emulation(c.connect.Node, c.connect.Session, lines...)); !strings.HasPrefix(a, "HTTP/1.1 204 ") {
		c.s.t.Errorf("%q", a)
	}
}

// Clients of both kinds send commands in order, and get what everybody gets.
func TestStreams(t *testing.T) {
	s := startServer(t, streaming)
	clients := []*httpClient{s.httpStream("a"), s.sse("b")}
	for _, c := range clients {
		c.send(`{"id":2,"subscribe":{"channel":"news"}}`, `{"id":3,"unsubscribe":{"channel":"news"}}`, `{"id":4,"subscribe":{"channel":"news"}}`)
		c.want(`{"id":2,"subscribe":{}}`, `{"id":3,"unsubscribe":{}}`, `{"id":4,"subscribe":{}}`)
	}
	s.api("publish", `{"channel":"news","data":{"n":1}}`)
	for _, c := range clients {
		c.want(`{"push":{"channel":"news","pub":{"data":{"n":1}}}}`)
	}
	clients[0].send(`{"id":5,"subscribe":{"channel":`)
	clients[0].want(`{"push":{"disconnect":{"code":3501,"reason":"bad request"}}}`)
	if rest, err := io.ReadAll(clients[0].lines); err != nil || len(rest) > 0 {
		t.Errorf("after the disconnect: %q, %v", rest, err)
	}
}

// Nobody learns of a session by the answer: it is the same for the session of a client, for one that
// there is not, for one that is not spelled as it should be, and for commands that are no text.
func TestEmulationRevealsNothing(t *testing.T) {
	s := startServer(t, streaming)
	c := s.httpStream("a")
	node, session := c.connect.Node, c.connect.Session
	want := s.emulate(emulation(node, session, `{"id":2,"unsubscribe":{"channel":"a"}}`))
	for _, body := range []string{
		emulation(node, uuid.NewString(), `{"id":3,"unsubscribe":{"channel":"a"}}`),
		emulation(node, uuid.NewString(), `garbage`),
		emulation(node, strings.ToUpper(session), `{"id":3,"unsubscribe":{"channel":"a"}}`),
		emulation(node, session+" ", `{"id":3,"unsubscribe":{"channel":"a"}}`),
		emulation(node, c.connect.Client, `{"id":3,"unsubscribe":{"channel":"a"}}`),
		emulation(node, "", `{"id":3,"unsubscribe":{"channel":"a"}}`),
		fmt.Sprintf(`{"node":%q,"session":%q,"data":{"id":3}}`, node, session),
		fmt.Sprintf(`{"node":%q,"session":%q}`, node, session),
	} {
		if got := s.emulate(body); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
	// The node, which is no secret, is known or not, whatever the session is.
	other := s.emulate(emulation(uuid.NewString(), session, `{}`))
	if again := s.emulate(emulation(uuid.NewString(), uuid.NewString(), `{}`)); again != other || !strings.HasPrefix(other, "HTTP/1.1 404 ") {
		t.Errorf("%q, %q", other, again)
	}
	c.want(`{"id":2,"unsubscribe":{}}`)
	c.send(`{"id":4,"unsubscribe":{"channel":"a"}}`)
	c.want(`{"id":4,"unsubscribe":{}}`) // the session got nothing of all that
}

// The limits of connections are for streams alone, and what is refused is in the log with its key.
func TestStreamLimits(t *testing.T) {
	s := startServer(t, func(cfg *config.Config) {
		measured(cfg)
		streaming(cfg)
		cfg.UniSSE.Enabled = false
		cfg.Client.ConnectionLimit = 1
		cfg.Client.AllowedOrigins = []string{"https://good.example"}
		cfg.HTTPStream.MaxRequestBodySize, cfg.Emulation.MaxRequestBodySize = 2000, 1000
	})
	c := s.httpStream("a")
	status := func(req *http.Request) int {
		t.Helper()
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if allowed := res.Header.Get("Access-Control-Allow-Origin"); allowed != "" && allowed != "https://good.example" {
			t.Errorf("%s is allowed", allowed)
		}
		return res.StatusCode
	}
	if n := status(s.newRequest(http.MethodPost, "/connection/http_stream", `{"id":1,"connect":{}}`)); n != http.StatusServiceUnavailable {
		t.Error(n)
	}
	for i := range 20 {
		c.send(fmt.Sprintf(`{"id":%d,"unsubscribe":{"channel":"a"}}`, i+2))
		c.want(fmt.Sprintf(`{"id":%d,"unsubscribe":{}}`, i+2))
	}
	const cors = "Access-Control-Allow-Origin: https://good.example\r\n"
	body := emulation(c.connect.Node, c.connect.Session, `{"id":30,"unsubscribe":{"channel":"a"}}`)
	if a := s.emulate(body, "Origin", "https://good.example"); !strings.Contains(a, cors) {
		t.Errorf("%q", a)
	}
	if a := s.emulate(body, "Origin", "https://bad.example"); strings.Contains(a, "Access-Control") || !strings.HasPrefix(a, "HTTP/1.1 204 ") {
		t.Errorf("%q", a)
	}
	c.want(`{"id":30,"unsubscribe":{}}`, `{"id":30,"unsubscribe":{}}`)
	if n := status(s.newRequest(http.MethodPost, "/emulation", strings.Repeat(" ", 1001))); n != http.StatusRequestEntityTooLarge {
		t.Error(n)
	}
	if n := status(s.newRequest(http.MethodPost, "/emulation", emulation("nobody", c.connect.Session, `{}`))); n != http.StatusNotFound {
		t.Error(n)
	}
	if n := status(s.newRequest(http.MethodGet, "/connection/uni_sse", "")); n != http.StatusNotFound {
		t.Error(n)
	}
	_ = c.res.Body.Close()
	s.awaitClients(0)
	if n := status(s.newRequest(http.MethodPost, "/connection/http_stream", strings.Repeat(" ", 2001))); n != http.StatusRequestEntityTooLarge {
		t.Error(n)
	}
	s.wantMetric(22, "gyro_node_incoming_http_requests_total", "method=POST", "path=/emulation", "status=204")
	s.wantMetric(1, "gyro_node_incoming_http_requests_total", "method=POST", "path=/emulation", "status=404")
	s.wantMetric(1, "gyro_node_incoming_http_requests_total", "method=POST", "path=/connection/http_stream", "status=200")
	s.awaitLog(
		`"key":"client.connection_limit"`, `"key":"emulation.max_request_body_size"`, `"key":"http_stream.max_request_body_size"`,
		`"key":"uni_sse.enabled"`, `"key":"client.allowed_origins"`, `"origin":"https://bad.example"`, `is not in the cluster`,
	)
}

// One-way clients are told why they cannot connect as the configuration says.
func TestConnectCodes(t *testing.T) {
	expired := map[string]any{"sub": "a", "exp": 1}
	open := func(s *testServer, path string) *httpClient {
		t.Helper()
		return s.openStream(s.newRequest(http.MethodPost, path, `{`+s.tokenField(expired)+`}`))
	}
	s := startServer(t, streaming)
	open(s, "/connection/uni_http_stream").want(`{"disconnect":{"code":3005,"reason":"connection expired"}}`)

	var disconnect config.DisconnectTransform
	disconnect.Code, disconnect.To.Code, disconnect.To.Reason = 109, 4109, "get another token"
	var status config.HTTPTransform
	status.Code, status.To.StatusCode = 109, http.StatusUnauthorized
	s = startServer(t, func(cfg *config.Config) {
		streaming(cfg)
		cfg.Client.UniDisconnectOnConnect.Enabled = true
		cfg.Client.UniDisconnectOnConnect.Transforms = []config.DisconnectTransform{disconnect}
		cfg.UniSSE.ConnectCodeToHTTPResponse.Enabled = true
		cfg.UniSSE.ConnectCodeToHTTPResponse.Transforms = []config.HTTPTransform{status}
	})
	open(s, "/connection/uni_http_stream").want(`{"disconnect":{"code":4109,"reason":"get another token"}}`)
	c := open(s, "/connection/uni_sse")
	if text, err := io.ReadAll(c.lines); c.res.StatusCode != http.StatusUnauthorized || string(text) != "token expired" || err != nil {
		t.Errorf("%d %q %v", c.res.StatusCode, text, err)
	}
	c = s.openStream(s.newRequest(http.MethodPost, "/connection/uni_sse", `{}`))
	if text, err := io.ReadAll(c.lines); c.res.StatusCode != http.StatusInternalServerError || string(text) != "Internal Server Error" || err != nil {
		t.Errorf("%d %q %v", c.res.StatusCode, text, err)
	}
}

// TestUniPoll: requests without an SDK or a connection that lasts. They are clients while they wait.
func TestUniPoll(t *testing.T) {
	s := startServer(t, func(cfg *config.Config) {
		measured(cfg)
		streaming(cfg)
		cfg.UniPoll.Enabled, cfg.UniPoll.MaxRequestBodySize = true, 2000
		cfg.Client.ConnectionLimit = 1
		cfg.Client.AllowedOrigins = []string{"https://good.example"}
		o := &cfg.Channel.WithoutNamespace
		o.HistorySize, o.HistoryTTL, o.ForceRecovery, o.Presence, o.JoinLeave = 10, time.Minute, true, true, true
	})
	poll := func(body string) (status int, answer struct {
		Pushes []*protocol.Push
		Subs   json.RawMessage
	}) {
		res, err := http.DefaultClient.Do(s.newRequest(http.MethodPost, "/connection/uni_poll", body, "Origin", "https://good.example"))
		if err != nil {
			t.Error(err)
			return 0, answer
		}
		defer res.Body.Close()
		if res.Header.Get("Access-Control-Allow-Origin") != "https://good.example" && res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%d without the fields of CORS", res.StatusCode)
		}
		if res.StatusCode == http.StatusOK {
			if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
				t.Error(err)
			}
		}
		return res.StatusCode, answer
	}
	token := s.tokenField(jwt.MapClaims{"sub": "u"})
	status, first := poll(`{` + token + `,"subs":{"news":{}}}`)
	if status != http.StatusOK {
		t.Fatal(status)
	}
	s.awaitClients(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, a := poll(`{` + token + `,"subs":` + string(first.Subs) + `}`); len(a.Pushes) != 1 || a.Pushes[0].Pub == nil || string(a.Pushes[0].Pub.Data) != "1" {
			t.Errorf("%+v", a)
		}
	}()
	for s.app.node.NumClients() == 0 { // nothing tells that it waits
		select {
		case <-done:
			t.Fatal("it has its answer too soon")
		case <-time.After(time.Millisecond):
		}
	}
	if status, _ = poll(`{` + token + `}`); status != http.StatusServiceUnavailable {
		t.Error(status) // one waits, so there are as many as the limit allows
	}
	if got := s.api("presence_stats", `{"channel":"news"}`); !strings.Contains(got, `"num_clients":0`) && got != `{"result":{}}` {
		t.Error(got)
	}
	s.api("publish", `{"channel":"news","data":1}`)
	<-done
	s.awaitClients(0)
	if status, _ = poll(`{"token":"` + strings.Repeat("x", 2000) + `"}`); status != http.StatusRequestEntityTooLarge {
		t.Error(status)
	}
	s.awaitLog(`"key":"uni_poll.max_request_body_size"`, `"key":"client.connection_limit"`)
}

// TestGoneNamespace: what a client repeats may name channels of a namespace that the configuration does
// not have any more. They are left out, and the log says so; what a client asks for itself is refused.
func TestGoneNamespace(t *testing.T) {
	edit := func(cfg *config.Config) {
		streaming(cfg)
		cfg.UniPoll.Enabled, cfg.Client.AllowAnonymousConnect = true, true
		o := &cfg.Channel.WithoutNamespace
		o.AllowSubscribeForAnonymous, o.HistorySize, o.HistoryTTL, o.ForceRecovery = true, 10, time.Minute, true
	}
	s := startServer(t, func(cfg *config.Config) {
		edit(cfg)
		old := cfg.Channel.WithoutNamespace
		addNamespace(cfg, "old", func(o *config.ChannelOptions) { *o = old })
	})
	poll := func(subs string) (status int, a struct {
		Subs    json.RawMessage
		Refused []string
	}) {
		t.Helper()
		res, err := http.DefaultClient.Do(s.newRequest(http.MethodPost, "/connection/uni_poll", `{"subs":`+subs+`}`))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(&a); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, a
	}
	_, a := poll(`{"old:x":{},"news":{}}`)
	both := string(a.Subs)
	if err := s.app.Reload(testConfig(edit)); err != nil {
		t.Fatal(err)
	}
	s.api("publish", `{"channel":"news","data":1}`)
	status, a := poll(both)
	if status != http.StatusOK || strings.Join(a.Refused, " ") != "old:x" || strings.Contains(string(a.Subs), "old:x") || !strings.Contains(string(a.Subs), "news") {
		t.Errorf("%d %s %s", status, a.Subs, a.Refused)
	}
	if status, a = poll(`{"old:x":{}}`); status != http.StatusForbidden || strings.Join(a.Refused, " ") != "old:x" {
		t.Errorf("%d %s", status, a.Refused)
	}

	first := func(query string, fields ...string) string {
		t.Helper()
		c := s.openStream(s.newRequest(http.MethodGet, "/connection/uni_sse?"+query, "", fields...))
		_, _ = c.lines.ReadString('\n') // the beginning
		_, _ = c.lines.ReadString('\n') // retry
		_, _ = c.lines.ReadString('\n')
		text, _ := c.lines.ReadString('\n')
		return text
	}
	before := strings.Count(s.logged(), `"channel":"old:x"`)
	const id = "old:x=1.abc&news=0.abc"
	for _, got := range []string{first("", "Last-Event-ID", id), first("last_event_id=" + url.QueryEscape(id))} {
		if !strings.Contains(got, `"news":{`) || strings.Contains(got, "old:x") {
			t.Errorf("%s", got)
		}
	}
	asked := url.Values{"cf_connect": {`{"subs":{"old:x":{}}}`}}.Encode()
	for _, got := range []string{first(asked), first(asked, "Last-Event-ID", id)} {
		if !strings.Contains(got, `"code":3501`) {
			t.Errorf("%s", got)
		}
	}
	log := s.logged()
	if strings.Count(log, `"channel":"old:x"`) == before || !strings.Contains(log, `"key":"channel.namespaces"`) || !strings.Contains(log, `"client":"`) {
		t.Error(log)
	}
}

// TestBrokenBodies: a request whose body does not arrive is answered, logged and counted, whether the
// front or net/http has read its head.
func TestBrokenBodies(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) { measured(cfg); streaming(cfg) })
	for _, path := range []string{"/emulation", "/connection/http_stream"} {
		for _, byNetHTTP := range []string{"", "Trailer: A\r\n"} {
			c := must(net.Dial("tcp", s.app.Addr("external")))
			must(io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n"+byNetHTTP+"\r\n{"))
			_ = c.(*net.TCPConn).CloseWrite()
			res := must(http.ReadResponse(bufio.NewReader(c), nil)) //nolint:bodyclose // the linter does not see through must
			res.Body.Close()
			if res.StatusCode != 499 {
				t.Errorf("%s %q: %s", path, byNetHTTP, res.Status)
			}
			c.Close()
		}
		s.wantMetric(2, "gyro_node_incoming_http_requests_total", "method=POST", "path="+path, "status=499")
	}
	if n := strings.Count(s.logged(), "the body did not arrive"); n != 4 {
		t.Errorf("%d lines in the log: %s", n, s.logged())
	}
}
