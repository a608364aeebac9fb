package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/proxy/message"
	"github.com/gyrohq/gyro/server/internal/testkit/schematest"
)

// accepted is the answer that accepts a stream.
const accepted = `subscribe_response:{result:{data:"hello"}}`

// hello is a publication of a stream.
func hello(data string) string {
	return fmt.Sprintf(`publication:{data:%q tags:{key:"k" value:"v"}}`, data)
}

// accepting accepts streams and keeps them open.
func accepting(s *schematest.Call, _ schematest.Message) error {
	if err := s.Send(accepted); err != nil {
		return err
	}
	<-s.Context().Done()
	return s.Context().Err()
}

// streamMeter counts streams.
type streamMeter struct {
	unmeasured
	mu           sync.Mutex
	open, broken int
	failed       int
}

func (m *streamMeter) Ended(_ time.Duration, failed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if failed {
		m.failed++
	}
}

func (m *streamMeter) Opened() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open++
}

func (m *streamMeter) Closed(broken bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open--; broken {
		m.broken++
	}
}

// want compares the counts.
func (m *streamMeter) want(t *testing.T, open, broken, failed int) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open != open || m.broken != broken || m.failed != failed {
		t.Errorf("%d streams are open, %d broke, %d calls failed; want %d, %d, %d", m.open, m.broken, m.failed, open, broken, failed)
	}
}

func openStreams(t *testing.T, c *config.Proxy) (*Proxy, *streamMeter) {
	t.Helper()
	p, _ := open(t, SubscribeStream, c)
	m := new(streamMeter)
	p.meter = m
	return p, m
}

func subscribe(p *Proxy, bidirectional bool) (*Stream, *message.SubscribeResponse, error) {
	return p.Open(context.Background(), nil, &message.SubscribeRequest{Client: "c", Channel: "news"}, bidirectional)
}

// mustSubscribe returns a stream that is closed with the test.
func mustSubscribe(t *testing.T, p *Proxy, bidirectional bool) *Stream {
	t.Helper()
	s, _, err := subscribe(p, bidirectional)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestStream(t *testing.T) {
	for _, bidirectional := range []bool{false, true} {
		t.Run(fmt.Sprint(bidirectional), func(t *testing.T) {
			var got schematest.Message
			var md metadata.MD
			c := settings(serveGRPC(t, func(s *schematest.Call, r schematest.Message) error {
				got = r
				md, _ = metadata.FromIncomingContext(s.Context())
				for _, m := range []string{accepted, hello("1"), "", hello("2")} {
					if err := s.Send(m); err != nil {
						return err
					}
				}
				return nil
			}))
			c.HTTPHeaders, c.GRPC.StaticMetadata, c.GRPC.Compression = []string{"Cookie"}, map[string]string{"X-Env": "prod"}, true
			p, meter := openStreams(t, c)
			from, _ := NewKeeper(8192, p).Keep(false, func() http.Header { return http.Header{"Cookie": {"a=1"}} }, nil)
			s, res, err := p.Open(t.Context(), from, &message.SubscribeRequest{Client: "c", Channel: "news", Data: []byte(`{}`)}, bidirectional)
			if err != nil {
				t.Fatal(err)
			}
			meter.want(t, 1, 0, 0)
			want := `client:"c" channel:"news" data:"{}"`
			if bidirectional {
				want = "subscribe_request:{" + want + "}"
			}
			if string(res.Result.Data) != "hello" || !got.Is(want) {
				t.Errorf("%+v for %v, want %s", res.Result, got, want)
			}
			if md.Get("cookie")[0] != "a=1" || md.Get("x-env")[0] != "prod" {
				t.Errorf("metadata %v", md)
			}
			for _, want := range []string{"1", "", "2"} {
				var m message.StreamSubscribeResponse
				if err := s.Receive(&m); err != nil {
					t.Fatal(err)
				}
				if p := m.Publication; want == "" && p != nil || want != "" && (string(p.Data) != want || p.Tags["k"] != "v") {
					t.Errorf("%+v, want %q", p, want)
				}
			}
			if err := s.Receive(new(message.StreamSubscribeResponse)); !errors.Is(err, ErrFinished) {
				t.Error(err)
			}
			s.Close()
			s.Close()
			meter.want(t, 0, 0, 0)
		})
	}
}

// garbage is a codec of backends that send what is no message.
type garbage struct{}

func (garbage) Marshal(any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer("\xff\xff\xff")}, nil
}
func (garbage) Unmarshal(mem.BufferSlice, any) error { return nil }
func (garbage) Name() string                         { return "proto" }

// What is no answer is a failure, and leaves no stream behind.
func TestStreamFailures(t *testing.T) {
	answers := map[string]func(s *schematest.Call) error{
		"status":      func(*schematest.Call) error { return status.Error(codes.NotFound, "no") },
		"end at once": func(*schematest.Call) error { return nil },
		"publication": func(s *schematest.Call) error { _ = s.Send(hello("1")); <-s.Context().Done(); return nil },
		"timeout":     func(s *schematest.Call) error { <-s.Context().Done(); return nil },
		"too large": func(s *schematest.Call) error {
			_ = s.SendMsg(schema.Encoded("StreamSubscribeResponse", strings.Repeat("x", maxAnswer+1)))
			<-s.Context().Done()
			return nil
		},
		"garbage": func(s *schematest.Call) error { _ = s.Send(accepted); <-s.Context().Done(); return nil },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{}, 2)
			b := func(s *schematest.Call, _ schematest.Message) error {
				defer func() { over <- struct{}{} }()
				return answer(s)
			}
			var o []grpc.ServerOption
			if name == "garbage" {
				o = append(o, grpc.ForceServerCodecV2(garbage{}))
			}
			c := settings(serveGRPC(t, b, o...))
			if name == "timeout" {
				c.Timeout = 20 * time.Millisecond
			}
			p, meter := openStreams(t, c)
			for _, bidirectional := range []bool{false, true} {
				_, _, err := subscribe(p, bidirectional)
				var f *Failure
				if !errors.As(err, &f) || f.Key != "rpc.proxy" || (name == "timeout") != errors.Is(err, errTimeout) {
					t.Errorf("%v", err)
				}
				if name != "timeout" { // by which the stream may not have come to the backend
					<-over
				}
			}
			meter.want(t, 0, 0, 2)
		})
	}
	p, meter := openStreams(t, settings("127.0.0.1:1")) // nobody listens
	if _, _, err := subscribe(p, false); err == nil {
		t.Error("no error")
	}
	meter.want(t, 0, 0, 1)
}

// The client goes while the backend is asked.
func TestStreamClientGone(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	p, meter := openStreams(t, settings(serveGRPC(t, func(s *schematest.Call, _ schematest.Message) error {
		close(begun)
		<-s.Context().Done()
		close(ended)
		return nil
	})))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	if _, _, err := p.Open(ctx, nil, new(message.SubscribeRequest), false); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-ended
	meter.want(t, 0, 0, 0)
}

// A backend that dies breaks its streams.
func TestStreamBreaks(t *testing.T) {
	address, server := startGRPC(t, accepting)
	p, meter := openStreams(t, settings(address))
	s := mustSubscribe(t, p, false)
	server.Stop()
	if err := s.Receive(new(message.StreamSubscribeResponse)); err == nil || errors.Is(err, ErrFinished) || errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	s.Close()
	meter.want(t, 0, 1, 0)
}

// Close is noticed by the backend, and by Receive.
func TestStreamClose(t *testing.T) {
	ended := make(chan struct{})
	p, meter := openStreams(t, settings(serveGRPC(t, func(s *schematest.Call, r schematest.Message) error {
		defer close(ended)
		return accepting(s, r)
	})))
	s := mustSubscribe(t, p, true)
	received := make(chan error)
	go func() { received <- s.Receive(new(message.StreamSubscribeResponse)) }()
	s.Close()
	if err := <-received; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := s.Send([]byte("1")); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	<-ended
	meter.want(t, 0, 0, 0)
}

// What a client has sent reaches the backend, also if the client goes at once, and others send, too.
func TestStreamCloseAfterSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, messages = 20, 50
		got := make(chan int, streams)
		dial := pipeGRPC(t, func(s *schematest.Call, _ schematest.Message) error {
			if err := s.Send(accepted); err != nil {
				return err
			}
			for n := 0; ; n++ {
				m, err := s.Receive()
				if err != nil {
					got <- n
					if !errors.Is(err, io.EOF) {
						return err
					}
					return nil
				}
				if data := m.Text("publication.data"); data != fmt.Sprint(n) {
					return fmt.Errorf("message %d is %s", n, data)
				}
			}
		})
		c := settings(inMemory)
		c.MaxStreams = streams
		p, meter := openStreams(t, c)
		connectTo(t, p, dial)
		var all sync.WaitGroup
		for range streams {
			s := mustSubscribe(t, p, true)
			all.Go(func() {
				for i := range messages {
					if err := s.Send(fmt.Append(nil, i)); err != nil {
						t.Error(err)
					}
				}
				s.Close()
				// The end of the stream, by the backend here, makes that of everything.
				if err := s.Receive(new(message.StreamSubscribeResponse)); !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			})
		}
		for range streams {
			if n := <-got; n != messages {
				t.Errorf("the backend got %d messages, want %d", n, messages)
			}
		}
		all.Wait()
		meter.want(t, 0, 0, 0)
	})
}

// A backend that does not read does not hold a client up for longer than the timeout.
func TestStreamSendUnread(t *testing.T) {
	c := settings(serveGRPC(t, accepting))
	p, meter := openStreams(t, c)
	s := mustSubscribe(t, p, true)
	c.Timeout = 100 * time.Millisecond
	var err error
	for n := 0; err == nil && n < 1000; n++ {
		err = s.Send(make([]byte, 64<<10))
	}
	if !errors.Is(err, errUnread) {
		t.Error(err)
	}
	if err := s.Receive(new(message.StreamSubscribeResponse)); err == nil || errors.Is(err, ErrFinished) {
		t.Error(err)
	}
	s.Close()
	meter.want(t, 0, 1, 0)
}

// No more streams are open than max_streams; that is no failure of the backend.
func TestMaxStreams(t *testing.T) {
	c := settings(serveGRPC(t, accepting))
	c.Breaker.Failures = 1
	p, meter := openStreams(t, c)
	var list []*Stream
	for range 4 {
		list = append(list, mustSubscribe(t, p, false))
	}
	for range 2 {
		if _, _, err := subscribe(p, false); !errors.Is(err, ErrStreams) {
			t.Error(err)
		}
	}
	list[0].Close()
	mustSubscribe(t, p, false)
	meter.want(t, 4, 0, 2)
}

// A reload that changes the proxy leaves its streams alone.
func TestRetireKeepsStreams(t *testing.T) {
	cfg := config.DefaultConfig()
	send := make(chan string)
	cfg.Channel.Proxy.SubscribeStream = *settings(serveGRPC(t, func(s *schematest.Call, _ schematest.Message) error {
		if err := s.Send(accepted); err != nil {
			return err
		}
		for data := range send {
			if err := s.Send(hello(data)); err != nil {
				return err
			}
		}
		return nil
	}))
	defer close(send)
	cfg.Channel.WithoutNamespace.SubscribeStreamProxyEnabled = true
	before, err := NewSet(cfg, nil, nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p := before.Of(SubscribeStream, "")
	s := mustSubscribe(t, p, false)
	changed := *cfg
	changed.Channel.Proxy.SubscribeStream.Timeout = time.Hour
	next, err := NewSet(&changed, before, nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if next.Of(SubscribeStream, "") == p {
		t.Fatal("it is the same proxy")
	}
	retired := make(chan struct{})
	go func() {
		p.retire() // as Retire does after a while
		close(retired)
	}()
	send <- "1"
	var m message.StreamSubscribeResponse
	if err := s.Receive(&m); err != nil || string(m.Publication.Data) != "1" {
		t.Errorf("%v, %v", m.Publication, err)
	}
	s.Close()
	<-retired
	if _, _, err := subscribe(p, false); status.Code(err) != codes.Canceled {
		t.Errorf("the connection is open: %v", err)
	}
}

// A server that shuts down lets backends read what clients have sent, and does not wait for one that does
// not, nor for a stream that nobody closes.
func TestSetCloseWaitsForStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan int, 1)
		dial := pipeGRPC(t, func(s *schematest.Call, r schematest.Message) error {
			if err := s.Send(accepted); err != nil || r.Text("subscribe_request.channel") == "deaf" {
				<-s.Context().Done()
				return err
			}
			n := 0
			for _, err := s.Receive(); err == nil; _, err = s.Receive() {
				n++
			}
			got <- n
			return nil
		})
		for _, ch := range []string{"news", "deaf", "open"} {
			cfg := config.DefaultConfig()
			cfg.Channel.Proxy.SubscribeStream = *settings(inMemory)
			cfg.Channel.WithoutNamespace.SubscribeStreamProxyEnabled = true
			set, err := NewSet(cfg, nil, nil, nil, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			p := set.Of(SubscribeStream, "")
			connectTo(t, p, dial)
			s, _, err := p.Open(t.Context(), nil, &message.SubscribeRequest{Channel: ch}, true)
			if err != nil {
				t.Fatal(err)
			}
			for range 100 {
				if err := s.Send([]byte("1")); err != nil {
					t.Fatal(err)
				}
			}
			if ch == "open" {
				set.Close()
				s.Close()
				continue
			}
			s.Close()
			go func() { _ = s.Receive(new(message.StreamSubscribeResponse)) }() // as a feed does
			set.Close()
			if ch == "news" {
				if n := <-got; n != 100 {
					t.Errorf("the backend got %d messages", n)
				}
			}
		}
	})
}

// Streams leave nothing behind.
func TestStreamsLeaveNothing(t *testing.T) {
	c := settings(serveGRPC(t, accepting))
	p, meter := openStreams(t, c)
	mustSubscribe(t, p, false).Close()
	before := runtime.NumGoroutine()
	for i := range 1000 {
		s, _, err := subscribe(p, i%2 == 0)
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			go func() { _ = s.Receive(new(message.StreamSubscribeResponse)) }()
		}
		s.Close()
	}
	meter.want(t, 0, 0, 0)
	wait.Until(t, "the goroutines of the streams end", func() bool { return runtime.NumGoroutine() <= before+5 })
}
