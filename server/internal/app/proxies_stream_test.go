package app

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/testkit/schematest"
)

// streamingBackend is a gRPC backend that decides about subscriptions by streams. A test gets each
// stream that it opens, and does with it what it likes.
type streamingBackend struct {
	t       *testing.T
	address string
	server  *grpc.Server

	mu      sync.Mutex
	answer  string           // to the next subscriptions; noAnswer for none
	opened  chan *testStream // nil: nobody wants to know
	streams int              // that are open
}

// noAnswer makes the call fail.
const noAnswer = "none"

// testStream is a stream at its backend.
type testStream struct {
	*schematest.Call
	t       *testing.T
	request schematest.Message
	said    chan string // what the client publishes; closed after the last
	end     chan error
}

func newStreamingBackend(t *testing.T) *streamingBackend {
	b := &streamingBackend{t: t, opened: make(chan *testStream, 64)}
	b.listen(porttest.Address(t))
	return b
}

// proxySchema is what users make gRPC backends from.
var proxySchema = schematest.File("../proxy/message/proxy.proto")

// listen starts the server of the backend.
func (b *streamingBackend) listen(address string) {
	l := must(net.Listen("tcp", address))
	s := grpc.NewServer(proxySchema.Serve(b.serve))
	go func() { _ = s.Serve(l) }()
	b.t.Cleanup(s.Stop)
	b.address, b.server = l.Addr().String(), s
}

func (b *streamingBackend) serve(c *schematest.Call, request schematest.Message) error {
	s := &testStream{Call: c, t: b.t, request: request, said: make(chan string, 64), end: make(chan error, 1)}
	b.mu.Lock()
	answer, opened := b.answer, b.opened
	b.streams++
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.streams--
	}()
	if answer == noAnswer {
		return status.Error(codes.Internal, "no answer")
	}
	if err := s.Send("subscribe_response:{" + answer + "}"); err != nil {
		return err
	}
	if opened != nil {
		opened <- s
	}
	if s.bidirectional() {
		go func() {
			defer close(s.said)
			for {
				m, err := s.Receive()
				if err != nil {
					return
				}
				s.said <- m.Text("publication.data")
			}
		}()
	}
	select {
	case err := <-s.end:
		return err
	case <-s.Context().Done():
		return s.Context().Err()
	}
}

func (s *testStream) bidirectional() bool { return s.Method() == "SubscribeBidirectional" }

// asked is a field of what the backend is asked.
func (s *testStream) asked(name string) string {
	if s.bidirectional() {
		name = "subscribe_request." + name
	}
	return s.request.Text(name)
}

// open is the number of streams that are open at the backend.
func (b *streamingBackend) open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.streams
}

// publish sends a publication to the client of the stream.
func (s *testStream) publish(data string, tags map[string]string) {
	s.t.Helper()
	text := fmt.Sprintf("data:%q", data)
	for k, v := range tags {
		text += fmt.Sprintf(" tags:{key:%q value:%q}", k, v)
	}
	if err := s.Send("publication:{" + text + "}"); err != nil {
		s.t.Error(err)
	}
}

// gone waits until the backend is told that the stream has ended.
func (s *testStream) gone() {
	s.t.Helper()
	wait.Receive(s.t, "the end of the stream", s.Context().Done())
}

// startStreaming starts a server whose channels are streams of b: those of namespace both are
// bidirectional.
func startStreaming(t *testing.T, b *streamingBackend, edit func(*config.Config)) *testServer {
	s := startServerAt(t, "info", func(cfg *config.Config) {
		everything(cfg)
		p := &cfg.Channel.Proxy.SubscribeStream
		p.Endpoint, p.Timeout, p.IncludeConnMeta = "grpc://"+b.address, time.Minute, true
		set := func(o *config.ChannelOptions) {
			o.SubscribeStreamProxyEnabled, o.Presence, o.ForceRecovery, o.HistorySize, o.HistoryTTL = true, true, true, 10, time.Minute
			o.AllowPresenceForSubscriber, o.AllowPublishForClient, o.AllowedDeltaTypes = true, true, []string{"fossil"}
		}
		set(&cfg.Channel.WithoutNamespace)
		addNamespace(cfg, "both", func(o *config.ChannelOptions) {
			set(o)
			o.SubscribeStreamProxyBidi = true
		})
		if edit != nil {
			edit(cfg)
		}
	})
	s.expected = "backend"
	return s
}

// The backend decides about a subscription, and sends publications to it alone. For the rest it is as
// any other, without recovery and delta.
func TestStreamProxy(t *testing.T) {
	t.Parallel()
	b := newStreamingBackend(t)
	s := startStreaming(t, b, nil)
	for _, ch := range []string{"news", "both:news"} {
		b.answer = `result:{
			expire_at:9999999999 data:'{"x":1}' b64info:"eyJyIjoxfQ=="
			override:{force_recovery:{value:true} force_positioning:{value:true}}
		}`
		c, other := s.dial(nil), s.connect("43")
		id := c.Connect(s.tokenField(jwt.MapClaims{"sub": "42", "meta": map[string]int{"t": 1}})).Client
		r := c.Subscribe(ch, `"data":{"pin":1},"recoverable":true,"delta":"fossil"`)
		if string(r.Data) != `{"x":1}` || !r.Expires || r.Recoverable || r.Positioned || r.Delta {
			t.Errorf("%+v", r)
		}
		mine := <-b.opened
		for field, want := range map[string]string{
			"client": id, "user": "42", "channel": ch, "transport": "websocket", "protocol": "json",
			"encoding": "json", "data": `{"pin":1}`, "meta": `{"t":1}`,
		} {
			if got := mine.asked(field); got != want {
				t.Errorf("the backend is asked about the %s %q, want %q", field, got, want)
			}
		}
		other.Subscribe(ch, "")
		<-b.opened
		mine.publish(`{"n": 1}`, map[string]string{"k": "v"})
		if p := c.Pub(); string(p.Data) != `{"n": 1}` || p.Tags["k"] != "v" || p.Offset != 0 || p.Info != nil {
			t.Errorf("%+v", p)
		}
		s.api("publish", `{"channel":"`+ch+`","data":{"n":2}}`)
		for _, c := range []*wstest.Client{c, other} {
			if p := c.Pub(); string(p.Data) != `{"n":2}` {
				t.Errorf("%+v", p)
			}
		}
		here := c.Do(`"presence":{"channel":"` + ch + `"}`).Presence.Presence
		if len(here) != 2 || string(here[id].ChanInfo) != `{"r":1}` {
			t.Errorf("presence %v", here)
		}
		s.wantMetric(2, "gyro_proxy_streams", "name=default")
		other.Do(`"unsubscribe":{"channel":"` + ch + `"}`)
		c.Do(`"unsubscribe":{"channel":"` + ch + `"}`)
		mine.gone()
		s.awaitStreams(b, 0)
	}
	if strings.Contains(s.logged(), `"level":"warn"`) {
		t.Error(s.logged())
	}
}

// awaitStreams waits until n streams are open at the backend, and at the server.
func (s *testServer) awaitStreams(b *streamingBackend, n int) {
	s.t.Helper()
	wait.Until(s.t, fmt.Sprintf("%d streams are open at the backend", n), func() bool { return b.open() == n })
	s.wantMetric(float64(n), "gyro_proxy_streams", "name=default")
}

// What is no permission: the stream is given up.
func TestStreamProxyRefuses(t *testing.T) {
	t.Parallel()
	b := newStreamingBackend(t)
	b.opened = nil
	s := startStreaming(t, b, nil)
	for want, answer := range map[string]string{
		"error 403":       `error:{code:403 message:"no access" temporary:true} result:{}`,
		"disconnect 4500": `error:{code:403} disconnect:{code:4500 reason:"banned"}`,
		"error 110":       `result:{expire_at:1}`,
		"error 100":       `result:{b64data:"!"}`,
	} {
		for _, ch := range []string{"a", "both:a"} {
			b.answer = answer
			got, reply := s.connect("42").Outcome(`"subscribe":{"channel":"` + ch + `"}`)
			if got != want || reply != nil && reply.Error.Temporary != (want == "error 100") {
				t.Errorf("%s, %+v; want %s", got, reply, want)
			}
		}
	}
	b.answer = noAnswer
	if got, _ := s.connect("42").Outcome(`"subscribe":{"channel":"a"}`); got != "error 100" {
		t.Error(got)
	}
	s.wantMetric(1, "gyro_proxy_errors", "name=default", "protocol=grpc", "type=subscribe_stream")
	s.awaitStreams(b, 0)
	s.awaitLog("the backend gives no answer", `"key":"channel.proxy.subscribe_stream"`)
}

// However a subscription ends, the other side is told.
func TestStreamProxyEnds(t *testing.T) {
	t.Parallel()
	b := newStreamingBackend(t)
	s := startStreaming(t, b, nil)
	for _, ch := range []string{"a", "both:a"} {
		c := s.connect("42")
		for _, tt := range []struct {
			err  error
			code uint32
			log  string
		}{
			{nil, 2000, "the backend has ended the stream of a subscription, which ends"},
			{status.Error(codes.Aborted, "x"), 2500, "the stream of a subscription broke"},
		} {
			c.Subscribe(ch, "")
			stream := <-b.opened
			stream.publish("1", nil)
			stream.end <- tt.err
			if p := c.Pub(); string(p.Data) != "1" {
				t.Errorf("%+v", p)
			}
			if p := c.Push(); p.Unsubscribe == nil || p.Unsubscribe.Code != tt.code || p.Channel != ch {
				t.Errorf("%+v, want %d", p, tt.code)
			}
			s.awaitLog(tt.log, `"channel":"`+ch+`","key":"channel.proxy.subscribe_stream"`)
		}
		for name, end := range map[string]func(){
			"unsubscribe": func() { c.Do(`"unsubscribe":{"channel":"` + ch + `"}`) },
			"API":         func() { s.api("unsubscribe", `{"user":"42","channel":"`+ch+`"}`); c.Push() },
			"disconnect":  func() { s.api("disconnect", `{"user":"42"}`) },
			"vanish":      func() { c.Vanish() },
			"resubscribe": func() {
				c.Do(`"unsubscribe":{"channel":"` + ch + `"}`)
				c.Subscribe(ch, "")
				(<-b.opened).publish("2", nil)
				if p := c.Pub(); string(p.Data) != "2" {
					t.Errorf("%+v", p)
				}
			},
		} {
			c = s.connect("42")
			c.Subscribe(ch, "")
			stream := <-b.opened
			end()
			stream.gone()
			_ = stream.Send(`publication:{data:"late"}`)
			if p := c.Pushes(); len(p) > 0 {
				t.Errorf("%s: %+v", name, p[0])
			}
			c.Vanish()
		}
	}
	s.wantMetric(2, "gyro_proxy_streams_broken_total", "name=default")
	s.awaitStreams(b, 0)
	c := s.connect("42")
	c.Subscribe("a", "")
	stream := <-b.opened
	s.stop()
	stream.gone()
}

// A client's publications go into its stream, and nowhere else.
func TestStreamProxyPublish(t *testing.T) {
	t.Parallel()
	b := newStreamingBackend(t)
	s := startStreaming(t, b, nil)
	c := s.connect("42")
	for _, ch := range []string{"a", "both:a"} {
		if got, _ := c.Outcome(`"publish":{"channel":"` + ch + `","data":{}}`); got != "error 108" {
			t.Errorf("%s: %s before the subscription", ch, got)
		}
		c.Subscribe(ch, "")
	}
	<-b.opened
	stream := <-b.opened
	if got, _ := c.Outcome(`"publish":{"channel":"a","data":{}}`); got != "error 108" {
		t.Errorf("%s in a unidirectional one", got)
	}
	if got, _ := c.Outcome(`"publish":{"channel":"both:a"}`); got != "error 107" {
		t.Errorf("%s without data", got)
	}
	s.awaitLog("subscribe_stream_proxy_bidirectional")
	for i := range 10 {
		c.Do(fmt.Sprintf(`"publish":{"channel":"both:a","data":{"n": %d}}`, i))
		if got := <-stream.said; got != fmt.Sprintf(`{"n": %d}`, i) {
			t.Errorf("the stream got %s", got)
		}
	}
	stream.publish(`"pong"`, nil)
	if p := c.Pub(); string(p.Data) != `"pong"` {
		t.Errorf("echo %s", p.Data)
	}
	// What a client sends before it unsubscribes is not lost.
	for i := range 20 {
		c.Start(fmt.Sprintf(`"publish":{"channel":"both:a","data":%d}`, i))
	}
	c.Do(`"unsubscribe":{"channel":"both:a"}`)
	var got []string
	for data := range stream.said {
		got = append(got, data)
	}
	if len(got) != 20 || got[19] != "19" {
		t.Errorf("the stream got %q", got)
	}
}

// What JSON clients cannot read ends their connections, and Protobuf clients get it.
func TestStreamProxyBinary(t *testing.T) {
	t.Parallel()
	b := newStreamingBackend(t)
	s := startStreaming(t, b, nil)
	c := s.connect("42")
	c.Subscribe("a", "")
	(<-b.opened).publish("\x00\xff", nil)
	if d := c.Disconnected(); d.Code != 3506 {
		t.Errorf("%+v", d)
	}
	s.awaitLog("a publication from the backend's stream is not JSON", `"channel":"a","key":"channel.proxy.subscribe_stream"`)
	p := wstest.Dial(t, s.url("/connection/websocket?cf_protocol=protobuf"), nil)
	p.Connect(s.tokenField(jwt.MapClaims{"sub": "42"}))
	p.Subscribe("a", "")
	(<-b.opened).publish("\x00\xff", nil)
	if p := p.Pub(); string(p.Data) != "\x00\xff" {
		t.Errorf("%q", p.Data)
	}
}

// The limit of streams.
func TestStreamProxyLimit(t *testing.T) {
	t.Parallel()
	b := newStreamingBackend(t)
	s := startStreaming(t, b, func(cfg *config.Config) { cfg.Channel.Proxy.SubscribeStream.MaxStreams = 1 })
	c := s.connect("42")
	c.Subscribe("a", "")
	if got, r := c.Outcome(`"subscribe":{"channel":"b"}`); got != "error 100" || !r.Error.Temporary {
		t.Error(got)
	}
	s.awaitLog(`"channel":"b"`, "too many streams are open already", "channel.proxy.subscribe_stream.max_streams")
	c.Do(`"unsubscribe":{"channel":"a"}`)
	s.awaitStreams(b, 0)
	c.Subscribe("b", "")
}

// A backend that floods a client that reads nothing loses that client alone.
func TestStreamProxySlowClient(t *testing.T) {
	t.Parallel()
	b := newStreamingBackend(t)
	s := startStreaming(t, b, nil)
	slow, other := s.faulty(`{"id":1,"connect":{`+s.tokenField(jwt.MapClaims{"sub": "slow"})+`}}`+"\n"+`{"id":2,"subscribe":{"channel":"a"}}`), s.connect("42")
	defer slow.Close()
	flooding := <-b.opened
	other.Subscribe("a", "")
	calm := <-b.opened
	publication := fmt.Sprintf(`publication:{data:%q}`, `"`+strings.Repeat("x", 256<<10)+`"`)
	for flooding.Send(publication) == nil {
	}
	flooding.gone()
	calm.publish("1", nil)
	if p := other.Pub(); string(p.Data) != "1" {
		t.Errorf("%+v", p)
	}
	s.awaitStreams(b, 1)
}

// A backend dies under its streams and comes back: the clients, which subscribe again as SDKs do, all
// get new streams; nothing is left of the old ones.
func TestStreamProxyDies(t *testing.T) { // not parallel: it counts goroutines
	const clients = 100
	b := newStreamingBackend(t)
	b.opened = nil
	s := startStreaming(t, b, func(cfg *config.Config) {
		p := &cfg.Channel.Proxy.SubscribeStream
		p.Breaker.Failures, p.Breaker.OpenFor = 5, 10*time.Millisecond
		addNamespace(cfg, "plain", open)
	})
	list := make([]*wstest.Client, clients)
	for i := range list {
		list[i] = s.connect(fmt.Sprint(i))
		list[i].Subscribe("a", "")
	}
	other := s.connect("other")
	other.Subscribe("plain:a", "")
	s.awaitStreams(b, clients)
	before := runtime.NumGoroutine()
	for range 3 {
		b.server.Stop()
		var back sync.WaitGroup
		for _, c := range list {
			if p := c.Push(); p.Unsubscribe == nil || p.Unsubscribe.Code != 2500 {
				t.Fatalf("%+v", p)
			}
			back.Go(func() {
				for {
					switch got, _ := c.Outcome(`"subscribe":{"channel":"a"}`); got {
					case "ok":
						return
					case "error 100":
						time.Sleep(50 * time.Millisecond) // as SDKs, which wait for longer
					default:
						t.Error(got)
						return
					}
				}
			})
		}
		s.api("publish", `{"channel":"plain:a","data":{}}`)
		other.Pub()
		b.listen(b.address)
		back.Wait()
		s.awaitStreams(b, clients)
	}
	wait.Until(t, "the goroutines of the old streams end", func() bool { return runtime.NumGoroutine() <= before+20 })
}

// A thousand subscriptions leave nothing behind.
func TestStreamProxyLeavesNothing(t *testing.T) {
	b := newStreamingBackend(t)
	b.opened = nil
	s := startStreaming(t, b, nil)
	c := s.connect("42")
	run := func(n int) {
		for i := range n {
			ch := []string{"a", "both:a"}[i%2]
			c.Subscribe(ch, "")
			if i%4 == 1 {
				c.Do(`"publish":{"channel":"both:a","data":1}`)
			}
			c.Do(`"unsubscribe":{"channel":"` + ch + `"}`)
		}
		s.awaitStreams(b, 0)
	}
	run(10)
	before := runtime.NumGoroutine()
	run(1000)
	wait.Until(t, "the goroutines of the streams end", func() bool { return runtime.NumGoroutine() <= before+5 })
}
