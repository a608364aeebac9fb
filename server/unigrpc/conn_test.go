package unigrpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"pgregory.net/rapid"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/unistream"
	"github.com/gyrohq/gyro/transport"
)

// patience bounds every wait; none takes anywhere near as long.
const patience = 20 * time.Second

// testPeer records what its transport tells.
type testPeer struct {
	conn     transport.Conn
	info     transport.Info
	received chan string
	writable chan struct{}
	closed   chan error
}

func (p *testPeer) Receive(msg []byte) { p.received <- string(msg) }

func (p *testPeer) Writable() {
	select {
	case p.writable <- struct{}{}:
	default:
	}
}

func (p *testPeer) Closed(err error) { p.closed <- err }

// acceptor makes peers. If refuse is set, it returns that error; if it is a string, it panics.
type acceptor struct {
	peers  chan *testPeer
	refuse any
}

func (a *acceptor) Accept(_ context.Context, c transport.Conn, info transport.Info) (transport.Peer, error) {
	switch r := a.refuse.(type) {
	case error:
		return nil, r
	case string:
		panic(r)
	}
	p := &testPeer{conn: c, info: info, received: make(chan string, 10), writable: make(chan struct{}, 1), closed: make(chan error, 2)}
	a.peers <- p
	return p, nil
}

func await[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// start serves a in memory and returns a client.
func start(t *testing.T, a *acceptor, cfg Config) unistream.CentrifugoUniStreamClient {
	t.Helper()
	l := bufconn.Listen(64 << 10)
	s := New(a, cfg)
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///test", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		s.Stop()
		if err := s.Wait(context.Background(), time.Minute); err != nil {
			t.Error(err)
		}
		if err := await(t, served); err != nil {
			t.Error(err)
		}
	})
	return unistream.NewCentrifugoUniStreamClient(conn)
}

func consume(t *testing.T, c unistream.CentrifugoUniStreamClient) grpc.ServerStreamingClient[unistream.Push] {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	stream, err := c.Consume(ctx, &unistream.ConnectRequest{Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func push(n int) []byte {
	return (&protocol.Push{Message: &protocol.Message{Data: bytes.Repeat([]byte{'x'}, n)}}).AppendDelimited(nil)
}

// A core that writes as fast as the transport lets it loses nothing: what is not taken is written
// again when the transport asks for it. The end comes behind it.
func TestBackpressure(t *testing.T) {
	a := &acceptor{peers: make(chan *testPeer, 1)}
	stream := consume(t, start(t, a, Config{WriteTimeout: patience}))
	p := await(t, a.peers)
	if got, want := await(t, p.received), string((&protocol.ConnectRequest{Token: "t"}).AppendProto(nil)); got != want {
		t.Errorf("request %q, want %q", got, want)
	}
	sizes := []int{0, 1, 100, 40_000, 1, 300_000, 5}
	const rounds = 20
	go func() {
		for range rounds {
			var out []byte
			for _, n := range sizes {
				out = append(out, push(n)...)
			}
			for len(out) > 0 {
				n, err := p.conn.Write([][]byte{out})
				if err != nil {
					t.Error(err)
					return
				}
				if out = out[n:]; len(out) > 0 {
					<-p.writable
				}
			}
		}
		d := protocol.DisconnectForceReconnect
		p.conn.Close(d, [][]byte{push(7), (&protocol.Push{Disconnect: &d}).AppendDelimited(nil)})
	}()
	for range rounds {
		for _, n := range sizes {
			got, err := stream.Recv()
			if err != nil || len(got.GetMessage().GetData()) != n {
				t.Fatalf("%d bytes, %v, want %d", len(got.GetMessage().GetData()), err, n)
			}
		}
	}
	if got, err := stream.Recv(); err != nil || len(got.GetMessage().GetData()) != 7 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := stream.Recv(); err != nil || got.GetDisconnect().GetCode() != 3011 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if err := await(t, p.closed); !errors.Is(err, protocol.DisconnectForceReconnect) {
		t.Error(err)
	}
}

// A client that does not read is given up, also when the core has ended the connection before.
func TestWriteTimeout(t *testing.T) {
	for name, end := range map[string]func(c transport.Conn){
		"open": func(transport.Conn) {}, "closing": func(c transport.Conn) { c.Close(protocol.DisconnectShutdown, nil) },
		"slow": func(c transport.Conn) { c.Close(protocol.DisconnectSlow, nil) }, "gone": func(c transport.Conn) { c.Close(protocol.DisconnectConnectionClosed, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			a := &acceptor{peers: make(chan *testPeer, 1)}
			timeout := 10 * time.Millisecond
			if name == "slow" || name == "gone" {
				timeout = time.Hour
			}
			consume(t, start(t, a, Config{WriteTimeout: timeout}))
			p := await(t, a.peers)
			for range 2 { // gRPC takes the first one in any case
				for n, err := p.conn.Write([][]byte{push(200_000)}); n == 0; n, err = p.conn.Write([][]byte{push(200_000)}) {
					if err != nil {
						t.Fatal(err)
					}
					await(t, p.writable)
				}
			}
			end(p.conn)
			err := await(t, p.closed)
			want := map[string]protocol.Disconnect{
				"open": protocol.DisconnectWriteError, "closing": protocol.DisconnectShutdown,
				"slow": protocol.DisconnectSlow, "gone": protocol.DisconnectConnectionClosed,
			}[name]
			if !errors.Is(err, want) && !errors.Is(err, protocol.DisconnectWriteError) {
				t.Errorf("Closed(%v), want %v", err, want)
			}
		})
	}
}

// The peer is told when the client leaves.
func TestClientLeaves(t *testing.T) {
	a := &acceptor{peers: make(chan *testPeer, 1)}
	client := start(t, a, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := client.Consume(ctx, new(unistream.ConnectRequest)); err != nil {
		t.Fatal(err)
	}
	p := await(t, a.peers)
	if p.info.Name != "uni_grpc" || p.info.Mode != transport.OneWay || p.info.RemoteAddr == "" || p.info.Header().Get("Content-Type") != "application/grpc" {
		t.Errorf("info %+v", p.info)
	}
	cancel()
	if err := await(t, p.closed); err == nil {
		t.Error("no cause")
	}
	if _, err := p.conn.Write([][]byte{push(1)}); err == nil {
		t.Error("Write after the end")
	}
}

// An acceptor that takes no connections, and one that panics.
func TestRefusal(t *testing.T) {
	stream := consume(t, start(t, &acceptor{refuse: protocol.DisconnectShutdown}, Config{}))
	if got, err := stream.Recv(); err != nil || got.GetDisconnect().GetCode() != 3001 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	stream = consume(t, start(t, &acceptor{refuse: "panic"}, Config{}))
	if _, err := stream.Recv(); status.Code(err) != codes.Internal {
		t.Error(err)
	}
}

// Write takes whole messages, as many as the stash has room for.
func TestWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var run []byte
		bounds := map[int]bool{0: true}
		for _, n := range rapid.SliceOf(rapid.SampledFrom([]int{0, 1, 130, 20_000, 40_000})).Draw(t, "sizes") {
			run = append(run, push(n)...)
			bounds[len(run)] = true
		}
		held := rapid.IntRange(0, stashSize).Draw(t, "held")
		size := whole(run, held)
		next := len(run)
		for at := range bounds {
			if at > size {
				next = min(next, at)
			}
		}
		switch {
		case !bounds[size]:
			t.Fatalf("%d is no bound", size)
		case held == 0 && size == 0 && len(run) > 0:
			t.Fatal("an empty stash takes nothing")
		case held > 0 && held+size > stashSize:
			t.Fatalf("%d bytes in the stash", held+size)
		case next > size && held+next <= stashSize:
			t.Fatalf("there was room for %d", next)
		}
	})
}
