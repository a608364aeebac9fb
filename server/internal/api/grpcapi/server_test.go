package grpcapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/grpcapi"
	"github.com/gyrohq/gyro/server/internal/api/httpapi"
	"github.com/gyrohq/gyro/server/internal/api/internal/apitest"
	"github.com/gyrohq/gyro/server/internal/api/rights"
	"github.com/gyrohq/gyro/server/internal/testkit/grpctest"
	"github.com/gyrohq/gyro/server/internal/testkit/schematest"
)

// schema is what users make clients from.
var schema = schematest.File("../api.proto")

const publish = "/centrifugal.centrifugo.api.CentrifugoApi/Publish"

// observer notes what it hears.
type observer struct {
	mu    sync.Mutex
	lines []string
}

func (o *observer) note(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, line)
}

func (o *observer) Called(string, time.Duration) {}

func (o *observer) Executed(m api.Method, _ time.Duration, _ api.Result, err error) {
	line := m.String()
	if err != nil {
		line += " " + api.AsError(err).Message
	}
	o.note(line)
}

func (o *observer) Failed(m api.Method, s api.Stage) { o.note(m.String() + " " + string(s)) }

func (o *observer) heard() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lines
}

// lockedBuffer is a log.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// fixture is a server in memory.
type fixture struct {
	*grpcapi.Server
	conn     *grpc.ClientConn
	node     *apitest.Node
	observer observer
	logger   *slog.Logger
	buf      lockedBuffer
}

// byKey is for senders with a key; an empty one lets nobody in.
func byKey(key string) func() *rights.Guard {
	return guardOf(rights.Config{Section: "grpc_api", Key: key})
}

// anybody lets every sender in.
func anybody() *rights.Guard { return guardOf(rights.Config{Section: "grpc_api", Insecure: true})() }

func guardOf(c rights.Config) func() *rights.Guard {
	g, err := rights.New(c)
	if err != nil {
		panic(err) // there is no list of keys that could be wrong
	}
	return func() *rights.Guard { return g }
}

// start starts a server that lets everybody in, unless c has a guard.
func start(t *testing.T, c grpcapi.Config) *fixture {
	t.Helper()
	f := &fixture{node: new(apitest.Node)}
	f.logger = logging.Wrap(slog.New(slog.NewJSONHandler(&f.buf, nil)))
	if c.Guard == nil {
		c.Guard = anybody
	}
	c.Observer, c.Logger = &f.observer, f.logger
	exec := api.NewExecutor(api.Config{Node: f.node, Channels: apitest.Namespaces(), Statuses: apitest.Statuses{Node: f.node}, Logger: f.logger})
	var err error
	if f.Server, err = grpcapi.New(exec, c); err != nil {
		t.Fatal(err)
	}
	f.conn = grpctest.Serve(t, f.Server)
	return f
}

// logged is what has been logged so far.
func (f *fixture) logged(t *testing.T) string {
	t.Helper()
	if err := logging.Flush(f.logger); err != nil {
		t.Error(err)
	}
	f.buf.mu.Lock()
	defer f.buf.mu.Unlock()
	return f.buf.buf.String()
}

func bounded(t *testing.T, pairs ...string) context.Context {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), pairs...), wait.Limit)
	t.Cleanup(cancel)
	return ctx
}

// requests has a request to each method, and what fails.
var requests = []struct {
	method  api.Method
	request string
}{
	{api.MethodPublish, `{"channel":"full:a","data":{"n":1},"tags":{"a":"b"},"idempotency_key":"k","delta":true,"version":3,"version_epoch":"e"}`},
	{api.MethodPublish, `{"channel":"a","data":1}`},
	{api.MethodPublish, `{"channel":"no:a","data":1}`},
	{api.MethodPublish, `{}`},
	{api.MethodBroadcast, `{"channels":["full:a","no:a","full:b"],"data":1}`},
	{api.MethodBroadcast, `{}`},
	{api.MethodSubscribe, `{"user":"u","channel":"sub:a","client":"c","expire_at":5000000000,"data":1,"override":{"presence":{"value":false}}}`},
	{api.MethodUnsubscribe, `{"user":"u","channel":"sub:a","session":"s"}`},
	{api.MethodDisconnect, `{"user":"u","disconnect":{"code":4000,"reason":"x"},"whitelist":["a","b"]}`},
	{api.MethodRefresh, `{"user":"u","expire_at":5000000000,"info":{"a":1}}`},
	{api.MethodPresence, `{"channel":"full:a"}`},
	{api.MethodPresence, `{"channel":"a"}`},
	{api.MethodPresenceStats, `{"channel":"full:a"}`},
	{api.MethodHistory, `{"channel":"full:a","limit":3,"since":{"offset":2,"epoch":"e"},"reverse":true}`},
	{api.MethodHistory, `{"channel":"a"}`},
	{api.MethodHistoryRemove, `{"channel":"full:a"}`},
	{api.MethodChannels, `{"pattern":"a*"}`},
	{api.MethodConnections, `{"user":"u","label_filter":{"key":"a","cmp":"eq","val":"b"}}`},
	{api.MethodConnections, `{"expression":"queue > 0"}`},
	{api.MethodConnections, `{}`},
	{api.MethodUpdateUserStatus, `{"users":["a","bob"],"state":"away"}`},
	{api.MethodGetUserStatus, `{"users":["a","bob","a"]}`},
	{api.MethodDeleteUserStatus, `{"users":["a"]}`},
	{api.MethodFlight, `{"channel":"a","limit":5,"nodes":true}`},
	{api.MethodExplain, `{"user":"u","channel":"full:a"}`},
	{api.MethodExplain, `{}`},
	{api.MethodInfo, `{}`},
	{api.MethodRPC, `{"method":"none","params":{}}`},
	{api.MethodMapPublish, `{"channel":"map:a","key":"k","data":1}`},
	{api.MethodMapRemove, `{"channel":"map:a","key":"k"}`},
	{api.MethodMapReadState, `{"channel":"map:a"}`},
	{api.MethodMapReadStream, `{"channel":"map:a"}`},
	{api.MethodMapStats, `{"channel":"map:a"}`},
	{api.MethodMapClear, `{"channel":"map:a"}`},
	{api.MethodSharedPollPublish, `{"channel":"poll:a","key":"k","data":1,"version":1}`},
	{api.MethodBatch, `{"commands":[{"publish":{"channel":"full:a","data":1}},{"info":{}},{"presence":{"channel":"a"}},{}]}`},
	{api.MethodBatch, `{"commands":[]}`},
}

// TestMethods: a request over gRPC calls the node as the same request over HTTP does, and has the same answer.
func TestMethods(t *testing.T) {
	fill := func(n *apitest.Node) {
		n.Result.Position = gyro.StreamPosition{Offset: 7, Epoch: "e"}
		n.PresenceMap = map[string]*gyro.ClientInfo{"c": {User: "u", Client: "c", ConnInfo: []byte(`{"n":1}`)}}
		n.Stats = gyro.PresenceStats{Clients: 3, Users: 2}
		n.Stream = gyro.History{Top: n.Result.Position, Publications: []*gyro.Publication{{Offset: 7, Data: []byte(`"x"`), Tags: map[string]string{"a": "b"}}}}
		n.Subscribers = map[string]int{"a": 5}
		n.Cluster = []gyro.NodeInfo{{UID: "1", Name: "n", NumClients: 4}}
		n.Found.List = []inspect.Connection{{Client: "c", User: "u", Channels: map[string]inspect.Subscription{"full:a": {Offset: 3, Epoch: "e", Positioned: true}}}}
		n.Log.Events = []inspect.Event{{Kind: inspect.Connected, Client: "c", User: "u", Text: "websocket"}}
	}
	f := start(t, grpcapi.Config{})
	other := new(apitest.Node)
	fill(f.node)
	fill(other)
	h, err := httpapi.New(api.NewExecutor(api.Config{Node: other, Channels: apitest.Namespaces(), Statuses: apitest.Statuses{Node: other}}), httpapi.Config{Prefix: "/api", Guard: anybody})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[api.Method]bool{}
	for _, r := range requests {
		seen[r.method] = true
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/"+r.method.String(), strings.NewReader(r.request)))
		got, err := grpctest.Call(bounded(t), f.conn, r.method, r.request)
		if err != nil || !sameJSON(t, got, w.Body.String()) {
			t.Errorf("%s %s: %s, %v; over HTTP: %s", r.method, r.request, got, err, w.Body)
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(other.Calls())), slices.Sorted(slices.Values(f.node.Calls()))); diff != "" { // some are made at once
			t.Errorf("%s %s: calls (-HTTP +gRPC):\n%s", r.method, r.request, diff)
		}
	}
	for _, m := range api.Methods() {
		if !seen[m] {
			t.Errorf("no request to %s", m)
		}
	}
}

// TestBinary: payloads are bytes of any kind, both ways.
func TestBinary(t *testing.T) {
	f := start(t, grpcapi.Config{})
	f.node.Stream = gyro.History{Publications: []*gyro.Publication{{Offset: 1, Data: []byte("\x00\xff")}}}
	if _, err := schema.Invoke(bounded(t), f.conn, "Publish", `channel:"binary:a" data:"\x00\xff"`); err != nil {
		t.Error(err)
	}
	if calls := f.node.Calls(); len(calls) != 1 || calls[0] != "publish binary:a \x00\xff" {
		t.Errorf("%q", calls)
	}
	res, err := schema.Invoke(bounded(t), f.conn, "History", `channel:"full:a" limit:1`)
	if err != nil || !res.Is(`result:{publications:{data:"\x00\xff" offset:1}}`) {
		t.Errorf("%v, %v", res, err)
	}
	// An answer that is longer than what is made without a pool, compressed.
	f.node.Stream.Publications[0].Data = bytes.Repeat([]byte("0123456789"), 10_000)
	for range 3 {
		res, err = schema.Invoke(bounded(t), f.conn, "History", `channel:"full:a" limit:1`, grpc.UseCompressor(gzip.Name))
		if err != nil || res.Text("result.publications.0.data") != string(f.node.Stream.Publications[0].Data) {
			t.Error(err)
		}
	}
}

// TestTransportMode: errors become statuses by the option and by metadata, which is compared exactly.
func TestTransportMode(t *testing.T) {
	failing := map[string]codes.Code{
		`{"channel":"no:a","data":1}`: codes.NotFound, `{"data":1}`: codes.InvalidArgument, `{"channel":"broken","data":1}`: codes.Internal,
	}
	for name, tt := range map[string]struct {
		config   grpcapi.Config
		metadata []string
		want     bool
	}{
		"default":           {},
		"option":            {config: grpcapi.Config{ErrorMode: "transport"}, want: true},
		"metadata":          {metadata: []string{"x-centrifugo-error-mode", "transport"}, want: true},
		"own metadata":      {metadata: []string{"x-gyro-error-mode", "transport"}, want: true},
		"another case":      {metadata: []string{"x-centrifugo-error-mode", "Transport"}},
		"the second value":  {metadata: []string{"x-centrifugo-error-mode", "", "x-centrifugo-error-mode", "transport"}},
		"option and others": {config: grpcapi.Config{ErrorMode: "transport"}, metadata: []string{"x-centrifugo-error-mode", "x"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, tt.config)
			f.node.FailIn = "broken"
			for request, code := range failing {
				answer, err := grpctest.Call(bounded(t, tt.metadata...), f.conn, api.MethodPublish, request)
				if !tt.want {
					if err != nil || !strings.HasPrefix(answer, `{"error":{"code":1`) {
						t.Errorf("%s: %s, %v", request, answer, err)
					}
					continue
				}
				st := status.Convert(err)
				details := st.Proto().GetDetails()
				if st.Code() != code || len(details) != 1 {
					t.Fatalf("%s: %v", request, err)
				}
				detail := schema.Message("Error", "")
				if err := details[0].UnmarshalTo(detail); err != nil {
					t.Errorf("%s: %v", request, err)
				}
				if detail.Number("code") < 100 || detail.Text("message") != st.Message() {
					t.Errorf("%s: detail %v of %v", request, detail, err)
				}
			}
			if answer, err := grpctest.Call(bounded(t, tt.metadata...), f.conn, api.MethodBatch, `{"commands":[{}]}`); err != nil {
				t.Errorf("a batch fails as a whole: %s, %v", answer, err)
			}
		})
	}
	if _, err := grpcapi.New(api.NewExecutor(api.Config{Node: new(apitest.Node), Channels: apitest.Namespaces()}), grpcapi.Config{ErrorMode: "x"}); err == nil {
		t.Error("an error mode that does not exist")
	}
}

// TestClosed: without a guard nobody gets in.
func TestClosed(t *testing.T) {
	s, err := grpcapi.New(api.NewExecutor(api.Config{Node: new(apitest.Node), Channels: apitest.Namespaces()}), grpcapi.Config{Logger: logging.Wrap(slog.New(slog.DiscardHandler))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := grpctest.Call(t.Context(), grpctest.Serve(t, s), api.MethodInfo, `{}`); status.Code(err) != codes.Unauthenticated {
		t.Errorf("got %v", err)
	}
}

// TestKey: calls need exactly the key; health and reflection do not.
func TestKey(t *testing.T) {
	f := start(t, grpcapi.Config{Guard: byKey("very-secret"), Reflection: true})
	const body = `{"channel":"a","data":1}`
	for _, pairs := range [][]string{
		nil, {"authorization", ""}, {"authorization", "apikey very-secre"}, {"authorization", "apikey very-secret "}, {"authorization", "ApiKey very-secret"},
		{"authorization", "very-secret"}, {"authorization", "apikey wrong", "authorization", "apikey very-secret"}, {"x-api-key", "very-secret"},
	} {
		_, err := grpctest.Call(bounded(t, pairs...), f.conn, api.MethodPublish, body)
		if st := status.Convert(err); st.Code() != codes.Unauthenticated || st.Message() != "unauthenticated" {
			t.Errorf("%q: %v", pairs, err)
		}
	}
	if calls := f.node.Calls(); len(calls) > 0 {
		t.Errorf("calls without the key: %q", calls)
	}
	if _, err := grpctest.Call(bounded(t, "authorization", "apikey very-secret"), f.conn, api.MethodPublish, body); err != nil {
		t.Error(err)
	}
	if _, err := healthpb.NewHealthClient(f.conn).Check(bounded(t), new(healthpb.HealthCheckRequest)); err != nil {
		t.Error(err)
	}
	log := f.logged(t)
	for _, want := range []string{`"key":"grpc_api.key"`, `"path":"` + publish + `"`, `"addr":`, `the request has no API key: it is the metadata authorization with the value \"apikey KEY\"`,
		`"the request's API key is not grpc_api.key"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s:\n%s", want, log)
		}
	}
	if strings.Contains(log, "very-secre") {
		t.Errorf("the key is in the log:\n%s", log)
	}
}

// TestBadInput: what is no request gets a status that says what is wrong, and the connection goes on.
func TestBadInput(t *testing.T) {
	f := start(t, grpcapi.Config{MaxReceiveMessageSize: 1000})
	long := (&api.PublishRequest{Channel: "a", Data: bytes.Repeat([]byte("x"), 2000)}).AppendProto(nil)
	for name, tt := range map[string]struct {
		method  string
		request string
		options []grpc.CallOption
		code    codes.Code
		text    string
	}{
		"garbage":             {publish, "\x0a\x05t", nil, codes.InvalidArgument, "the request is not a Protobuf message of type PublishRequest"},
		"another wire type":   {publish, "\x08", nil, codes.InvalidArgument, "PublishRequest"},
		"too long":            {publish, string(long), nil, codes.ResourceExhausted, "1000"},
		"too long, unpacked":  {publish, string(long), []grpc.CallOption{grpc.UseCompressor(gzip.Name)}, codes.ResourceExhausted, "1000"},
		"unknown method":      {"/" + api.ServiceName + "/Other", "", nil, codes.Unimplemented, "unknown method Other"},
		"method of the PRO":   {"/" + api.ServiceName + "/BlockUser", "", nil, codes.Unimplemented, "unknown method BlockUser"},
		"unknown service":     {"/other/Publish", "", nil, codes.Unimplemented, "unknown service"},
		"reflection, if off":  {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "", nil, codes.Unimplemented, "unknown service"},
		"name in other cases": {"/" + api.ServiceName + "/publish", "", nil, codes.Unimplemented, "unknown method publish"},
	} {
		_, err := grpctest.Invoke(bounded(t), f.conn, tt.method, []byte(tt.request), tt.options...)
		if st := status.Convert(err); st.Code() != tt.code || !strings.Contains(st.Message(), tt.text) {
			t.Errorf("%s: %v, want %v %s", name, err, tt.code, tt.text)
		}
		if _, err := grpctest.Call(bounded(t), f.conn, api.MethodPublish, `{"channel":"a","data":1}`); err != nil {
			t.Fatalf("after %s: %v", name, err)
		}
	}
	if log := f.logged(t); !strings.Contains(log, `"key":"grpc_api.max_receive_message_size"`) {
		t.Errorf("the log does not name the limit:\n%s", log)
	}
	for _, want := range []string{"publish unmarshal", "publish read_body", "publish"} {
		if !strings.Contains(strings.Join(f.observer.heard(), "\n")+"\n", want+"\n") {
			t.Errorf("%q is not counted: %q", want, f.observer.heard())
		}
	}
}

// TestGone: a deadline and a stream that is reset end the call, wherever it is; others go on.
func TestGone(t *testing.T) {
	f := start(t, grpcapi.Config{})
	entered, leave := make(chan struct{}), make(chan struct{})
	f.node.Hook = func() { entered <- struct{}{}; <-leave }
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := grpctest.Call(ctx, f.conn, api.MethodInfo, `{}`)
		result <- err
	}()
	<-entered
	cancel()
	if err := <-result; status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	leave <- struct{}{}
	f.node.Hook = nil

	// A request of which only the beginning comes.
	ctx, cancel = context.WithCancel(t.Context())
	stream, err := f.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, publish, grpc.ForceCodecV2(grpctest.Codec{}))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := stream.RecvMsg(new([]byte)); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, err := grpctest.Call(late, f.conn, api.MethodInfo, `{}`); status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
	if _, err := grpctest.Call(bounded(t), f.conn, api.MethodInfo, `{}`); err != nil {
		t.Error(err)
	}
}

// TestPanic: a command that panics fails alone.
func TestPanic(t *testing.T) {
	f := start(t, grpcapi.Config{})
	f.node.Hook = func() { panic("by the test") }
	if _, err := grpctest.Call(bounded(t), f.conn, api.MethodInfo, `{}`); status.Code(err) != codes.Internal {
		t.Error(err)
	}
	f.node.Hook = nil
	if _, err := grpctest.Call(bounded(t), f.conn, api.MethodInfo, `{}`); err != nil {
		t.Error(err)
	}
	if log := f.logged(t); !strings.Contains(log, "API command panicked") || !strings.Contains(log, "by the test") {
		t.Errorf("log:\n%s", log)
	}
}

// TestStop: calls that are under way finish; streams of the other services end.
func TestStop(t *testing.T) {
	f := start(t, grpcapi.Config{Reflection: true})
	entered, leave := make(chan struct{}), make(chan struct{})
	f.node.Hook = func() { close(entered); <-leave }
	result := make(chan error, 1)
	go func() {
		_, err := grpctest.Call(bounded(t), f.conn, api.MethodInfo, `{}`)
		result <- err
	}()
	<-entered
	watch, err := healthpb.NewHealthClient(f.conn).Watch(bounded(t), new(healthpb.HealthCheckRequest))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := watch.Recv(); err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("%v, %v", got, err)
	}
	idle, err := reflectionpb.NewServerReflectionClient(f.conn).ServerReflectionInfo(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	f.Stop()
	for got, err := watch.Recv(); ; got, err = watch.Recv() {
		if err != nil {
			break
		}
		if got.Status != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("%v", got)
		}
	}
	if _, err := idle.Recv(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the reflection stream: %v", err)
	}
	close(leave)
	if err := <-result; err != nil {
		t.Errorf("the call that was under way: %v", err)
	}
	if err := f.Wait(bounded(t), wait.Limit); err != nil {
		t.Error(err)
	}
}

// TestHealth answers for the server and for the API, as Ready says.
func TestHealth(t *testing.T) {
	var failing error
	f := start(t, grpcapi.Config{Ready: func() error { return failing }})
	client := healthpb.NewHealthClient(f.conn)
	for want, err := range map[healthpb.HealthCheckResponse_ServingStatus]error{
		healthpb.HealthCheckResponse_SERVING: nil, healthpb.HealthCheckResponse_NOT_SERVING: errors.New("the broker is away"),
	} {
		failing = err
		for _, service := range []string{"", api.ServiceName} {
			if got, err := client.Check(bounded(t), &healthpb.HealthCheckRequest{Service: service}); err != nil || got.Status != want {
				t.Errorf("%q: %v, %v", service, got, err)
			}
		}
		list, err := client.List(bounded(t), new(healthpb.HealthListRequest))
		if err != nil || len(list.Statuses) != 2 || list.Statuses[""].Status != want {
			t.Errorf("%v, %v", list, err)
		}
	}
	if _, err := client.Check(bounded(t), &healthpb.HealthCheckRequest{Service: "x"}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	watch, err := client.Watch(bounded(t), &healthpb.HealthCheckRequest{Service: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := watch.Recv(); err != nil || got.Status != healthpb.HealthCheckResponse_SERVICE_UNKNOWN {
		t.Errorf("%v, %v", got, err)
	}
}

// TestReflection: the services, and the schema from which a client can be made.
func TestReflection(t *testing.T) {
	f := start(t, grpcapi.Config{Reflection: true, Guard: byKey("k")})
	stream, err := reflectionpb.NewServerReflectionClient(f.conn).ServerReflectionInfo(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(r *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	list := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	var names []string
	for _, s := range list.GetListServicesResponse().GetService() {
		names = append(names, s.Name)
	}
	if want := []string{"centrifugal.centrifugo.api.CentrifugoApi", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}; cmp.Diff(want, names) != "" {
		t.Errorf("services %q", names)
	}
	for _, symbol := range append(names, "centrifugal.centrifugo.api.PublishRequest") {
		answer := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol}})
		files := answer.GetFileDescriptorResponse().GetFileDescriptorProto()
		if len(files) == 0 {
			t.Errorf("%s: %v", symbol, answer)
			continue
		}
		file := new(descriptorpb.FileDescriptorProto)
		if err := proto.Unmarshal(files[0], file); err != nil {
			t.Error(err)
		}
		if strings.HasPrefix(symbol, "centrifugal") && len(file.Service[0].Method) != len(api.Methods()) {
			t.Errorf("%d methods", len(file.Service[0].Method))
		}
	}
}

// sameJSON compares values, because the members of a map have no order.
func sameJSON(t *testing.T, a, b string) bool {
	var of [2]any
	for i, text := range []string{a, b} {
		if err := json.Unmarshal([]byte(text), &of[i]); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	return cmp.Equal(of[0], of[1])
}
