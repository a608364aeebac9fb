package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/proxy/message"
	"github.com/gyrohq/gyro/server/internal/testkit/schematest"
	"github.com/gyrohq/gyro/transport/front/fronttest"
)

// A busy machine may take longer to accept a connection than backends may.
func init() { reconnect.MinConnectTimeout = wait.Limit }

// settings are those of a proxy in tests. Only tests about it run into the timeout.
func settings(endpoint string) *config.Proxy {
	return &config.Proxy{
		Endpoint: endpoint, Timeout: time.Minute, MaxConcurrency: 4, MaxQueue: 4, MaxStreams: 4,
		Breaker: config.Breaker{Failures: 3, OpenFor: time.Hour},
	}
}

// logs is a log that several goroutines write.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func open(t *testing.T, e Event, c *config.Proxy) (*Proxy, *logs) {
	t.Helper()
	var out logs
	p, err := New(Options{Event: e, Name: "default", Key: "rpc.proxy", Config: c, Log: slog.New(slog.NewTextHandler(&out, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, &out
}

// inMemory is the endpoint of backends that connectTo leads to.
const inMemory = "memory:80"

// connectTo has the proxy make its connections by a function, which virtual time takes.
func connectTo(t *testing.T, p *Proxy, dial func() net.Conn) {
	t.Helper()
	connect := func(context.Context, string) (net.Conn, error) { return dial(), nil }
	switch c := p.carrier.(type) {
	case *httpCarrier:
		c.conns.connect = func(ctx context.Context, _, address string) (net.Conn, error) { return connect(ctx, address) }
	case *grpcCarrier:
		c.close()
		var err error
		c.conn, err = grpc.NewClient("passthrough:///"+inMemory, append(options(p.event, p.config),
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(connect))...)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// backend is an HTTP backend.
func backend(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s
}

func rpc(p *Proxy) (*message.RPCResponse, error) {
	res := new(message.RPCResponse)
	err := p.Call(context.Background(), nil, &message.RPCRequest{Client: "c", Method: "m"}, res)
	return res, err
}

func TestHTTPRequest(t *testing.T) {
	type request struct {
		method, uri, body string
		header            http.Header
	}
	got := make(chan request, 1)
	s := backend(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- request{r.Method, r.RequestURI, string(body), r.Header}
		fmt.Fprint(w, `{"Result":{"DATA":{"a":1},"unknown":[]}}`)
	})
	c := settings(s.URL + "/a//b/../c?x=1")
	c.HTTPHeaders = []string{"cookie", "X-Both"}
	c.EmulatedHeaders = []string{"AUTHORIZATION", "x-both", "x-fallback"}
	c.HTTP.StaticHeaders = map[string]string{"X-Env": "prod", "Content-Type": "text/plain", "X-Fallback": "static"}
	p, _ := open(t, RPC, c)
	from, left := NewKeeper(8192, p).Keep(false, func() http.Header {
		return http.Header{"Cookie": {"a=1", "b=2"}, "X-Both": {"transport"}, "X-Other": {"no"}}
	}, map[string]string{"authorization": "t", "X-both": "emulated", "cookie": "forged", "x-fallback": "mine", "x-other": "no"})
	if len(left.Forged) != 1 || left.Forged[0] != "Cookie" || len(left.Long) > 0 {
		t.Errorf("left out %q", left)
	}
	res := new(message.RPCResponse)
	if err := p.Call(t.Context(), from, &message.RPCRequest{Client: "c", Data: []byte(`{"q":[1, 2]}`)}, res); err != nil {
		t.Fatal(err)
	}
	if string(res.Result.Data) != `{"a":1}` {
		t.Errorf("result %s", res.Result.Data)
	}
	r := <-got
	if r.method != "POST" || r.uri != "/a//b/../c?x=1" {
		t.Errorf("%s %s", r.method, r.uri)
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(r.body), &body); err != nil || fmt.Sprint(body) != "map[client:c data:map[q:[1 2]] user:]" {
		t.Errorf("body %s: %v", r.body, err)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Authorization": "t", "X-Both": "transport", "X-Fallback": "mine", "X-Env": "prod", "X-Other": "",
	} {
		if v := strings.Join(r.header.Values(name), "|"); v != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
	if v := strings.Join(r.header.Values("Cookie"), "; "); !strings.Contains(v, "a=1") || !strings.Contains(v, "b=2") || strings.Contains(v, "forged") {
		t.Errorf("cookies %q", v)
	}
}

// The user is in requests about connected clients, even if it is empty, but not in those about maps.
// Nothing else that is empty is in a request.
func TestEmptyRequests(t *testing.T) {
	for _, tt := range []struct {
		req  Request
		want string
	}{
		{new(message.ConnectRequest), `{}`}, {new(message.RefreshRequest), `{"user":""}`}, {new(message.SubscribeRequest), `{"user":""}`},
		{new(message.SubRefreshRequest), `{"user":""}`}, {new(message.PublishRequest), `{"user":""}`}, {new(message.RPCRequest), `{"user":""}`},
		{new(message.MapPublishRequest), `{}`}, {new(message.MapRemoveRequest), `{}`},
		{new(message.SharedPollRefreshRequest), `{}`}, {new(message.NotifyCacheEmptyRequest), `{}`},
	} {
		if got, err := tt.req.AppendJSON(nil); string(got) != tt.want || err != nil {
			t.Errorf("%T: %s, %v", tt.req, got, err)
		}
	}
}

func TestHTTPAnswers(t *testing.T) {
	transforms := []config.StatusTransform{{StatusCode: 404}, {StatusCode: 403}}
	transforms[0].ToError.Code, transforms[0].ToError.Message = 1404, "not found"
	transforms[1].ToDisconnect.Code, transforms[1].ToDisconnect.Reason = 4503, "forbidden"
	for name, c := range map[string]struct {
		status     int
		body, want string // want is the answer, or a part of the error
	}{
		"empty object":   {200, `{}`, `{}`},
		"empty result":   {200, `{"result":{}}`, `{"result":{}}`},
		"null data":      {200, `{"result":{"data":null}}`, `{"result":{"data":null}}`},
		"error":          {200, `{"error":{"code":1000,"message":"no","temporary":true}}`, `{"error":{"code":1000,"message":"no","temporary":true}}`},
		"disconnect":     {200, `{"disconnect":{"code":4500,"reason":"banned"}}`, `{"disconnect":{"code":4500,"reason":"banned"}}`},
		"transformed":    {404, `<html>`, `{"error":{"code":1404,"message":"not found"}}`},
		"disconnected":   {403, ``, `{"disconnect":{"code":4503,"reason":"forbidden"}}`},
		"no body":        {200, ``, "error: the body of the answer"},
		"HTML":           {200, `<html>oh</html>`, "error: the body of the answer"},
		"wrong type":     {200, `{"result":{"b64data":1}}`, "error: the body of the answer"},
		"code too large": {200, `{"error":{"code":4294967296}}`, "error: the body of the answer"},
		"two values":     {200, `{}{}`, "error: the body of the answer"},
		"201":            {201, `{}`, "error: the backend answered with status 201"},
		"204":            {204, ``, "error: the backend answered with status 204"},
		"302":            {302, ``, "error: the backend answered with status 302"},
		"500":            {500, `{}`, "error: the backend answered with status 500"},
	} {
		t.Run(name, func(t *testing.T) {
			s := backend(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			})
			o := settings(s.URL)
			o.HTTP.StatusToCodeTransforms = transforms
			p, _ := open(t, RPC, o)
			res, err := rpc(p)
			got, _ := res.AppendJSON(nil)
			if f := new(Failure); errors.As(err, &f) {
				got = []byte("error: " + f.Err.Error())
			}
			if string(got) != c.want && (!strings.HasPrefix(c.want, "error: ") || !strings.HasPrefix(string(got), c.want)) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// Connections that the backend has closed while they were idle are not used again, however many there are.
func TestIdleConnectionClosed(t *testing.T) {
	const idle = 4
	var opened, asked atomic.Int32
	var together sync.WaitGroup
	together.Add(idle)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) <= idle { // so that each has a connection of its own
			together.Done()
			together.Wait()
		}
		fmt.Fprint(w, `{}`)
	}))
	closed := make(chan struct{}, idle)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			closed <- struct{}{}
		}
	}
	s.Start()
	defer s.Close()
	p, _ := open(t, RPC, settings(s.URL))
	call := func() {
		if _, err := rpc(p); err != nil {
			t.Error(err)
		}
	}
	var calls sync.WaitGroup
	for range idle {
		calls.Go(call)
	}
	calls.Wait()
	call() // uses the connection of another
	if opened.Load() != idle {
		t.Fatalf("%d connections for %d calls at a time", opened.Load(), idle)
	}
	s.CloseClientConnections()
	for range idle {
		wait.Receive(t, "the end of a connection", closed)
	}
	call()
	if opened.Load() != idle+1 || asked.Load() != idle+2 {
		t.Errorf("%d connections, asked %d times", opened.Load(), asked.Load())
	}
}

// The call ends when the client goes, and is not counted as a failure.
func TestClientGone(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	s := backend(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(begun)
		<-r.Context().Done()
		close(ended)
	})
	c := settings(s.URL)
	c.Timeout = time.Hour
	p, out := open(t, RPC, c)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	given := make(chan error, 1)
	go func() { given <- p.Call(ctx, nil, new(message.RPCRequest), new(message.RPCResponse)) }()
	if err := wait.Receive(t, "the end of the call", given); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-ended
	if out.String() != "" {
		t.Error(out)
	}
}

// schema is what gRPC backends are made from.
var schema = schematest.File("message/proxy.proto")

// serveGRPC starts a gRPC backend that answers all calls by a function.
func serveGRPC(t *testing.T, answer func(*schematest.Call, schematest.Message) error, o ...grpc.ServerOption) string {
	address, _ := startGRPC(t, answer, o...)
	return address
}

func startGRPC(t *testing.T, answer func(*schematest.Call, schematest.Message) error, o ...grpc.ServerOption) (address string, s *grpc.Server) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = grpc.NewServer(append(o, schema.Serve(answer))...)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String(), s
}

// pipeGRPC is serveGRPC in memory. It returns what a proxy connects by.
func pipeGRPC(t *testing.T, answer func(*schematest.Call, schematest.Message) error, o ...grpc.ServerOption) func() net.Conn {
	pipes := fronttest.NewPipes()
	s := grpc.NewServer(append(o, schema.Serve(answer))...)
	go func() { _ = s.Serve(pipes) }()
	t.Cleanup(s.Stop)
	return pipes.Dial
}

func TestGRPC(t *testing.T) {
	var got schematest.Message
	var md metadata.MD
	address := serveGRPC(t, func(c *schematest.Call, request schematest.Message) error {
		if c.Method() != "RPC" {
			t.Error(c.Method())
		}
		got = request
		md, _ = metadata.FromIncomingContext(c.Context())
		return c.Send(fmt.Sprintf(`result:{data:%q}`, request.Text("data")))
	})
	for _, endpoint := range []string{"grpc://" + address + "/ignored?x=1", address, "passthrough:///" + address} {
		c := settings(endpoint)
		c.HTTPHeaders = []string{"Cookie", "X-Bad"}
		c.GRPC.StaticMetadata = map[string]string{"X-Env": "prod"}
		c.GRPC.CredentialsKey, c.GRPC.CredentialsValue = "x-secret", "s3"
		c.GRPC.Compression = true
		p, _ := open(t, RPC, c)
		from, _ := NewKeeper(8192, p).Keep(false, func() http.Header { return http.Header{"Cookie": {"a=1", "b=2"}, "X-Bad": {"\xff"}} }, nil)
		res := new(message.RPCResponse)
		if err := p.Call(t.Context(), from, &message.RPCRequest{Client: "c", Data: []byte(`{ "a":1}`)}, res); err != nil {
			t.Fatal(err)
		}
		if string(res.Result.Data) != `{ "a":1}` || !got.Is(`client:"c" data:'{ "a":1}'`) {
			t.Errorf("%s, %v", res.Result.Data, got)
		}
		for key, want := range map[string]string{"cookie": "a=1|b=2", "x-env": "prod", "x-secret": "s3", "x-bad": ""} {
			if v := strings.Join(md.Get(key), "|"); v != want {
				t.Errorf("%s: %q, want %q", key, v, want)
			}
		}
	}
}
