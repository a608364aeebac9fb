package unigrpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"pgregory.net/rapid"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/testkit/peertest"
	"github.com/gyrohq/gyro/server/internal/testkit/schematest"
	"github.com/gyrohq/gyro/transport"
)

// schema is what the client is made from.
var schema = schematest.File("unistream.proto")

// start serves a in memory, for virtual time, and returns a connection of a client.
func start(t *testing.T, a *peertest.Acceptor, cfg Config) *grpc.ClientConn {
	t.Helper()
	l := bufconn.Listen(64 << 10)
	s := New(a, cfg)
	served := make(chan error, 1)
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
		if err := peertest.Await(t, served); err != nil {
			t.Error(err)
		}
	})
	return conn
}

func consume(t *testing.T, conn *grpc.ClientConn) *schematest.Stream {
	t.Helper()
	stream, err := schema.Open(t.Context(), conn, "Consume", schema.Message("ConnectRequest", `token:"t"`))
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
	synctest.Test(t, func(t *testing.T) {
		a := peertest.NewAcceptor()
		stream := consume(t, start(t, a, Config{WriteTimeout: time.Hour}))
		p := peertest.Await(t, a.Peers)
		if got, want := peertest.Await(t, p.Received), string((&protocol.ConnectRequest{Token: "t"}).AppendProto(nil)); got != want {
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
				if err := p.Write(out); err != nil {
					t.Error(err)
					return
				}
			}
			d := protocol.DisconnectForceReconnect
			p.Conn.Close(d, [][]byte{push(7), (&protocol.Push{Disconnect: &d}).AppendDelimited(nil)})
		}()
		for range rounds {
			for _, n := range sizes {
				got, err := stream.Receive()
				if err != nil || len(got.Text("message.data")) != n {
					t.Fatalf("%d bytes, %v, want %d", len(got.Text("message.data")), err, n)
				}
			}
		}
		if got, err := stream.Receive(); err != nil || len(got.Text("message.data")) != 7 {
			t.Errorf("%v, %v", got, err)
		}
		if got, err := stream.Receive(); err != nil || got.Text("disconnect.code") != "3011" {
			t.Errorf("%v, %v", got, err)
		}
		if _, err := stream.Receive(); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		if err := peertest.Await(t, p.Ended); !errors.Is(err, protocol.DisconnectForceReconnect) {
			t.Error(err)
		}
	})
}

// A client that does not read is given up, also when the core has ended the connection before.
func TestWriteTimeout(t *testing.T) {
	closes := func(d protocol.Disconnect) func(transport.Conn) {
		return func(c transport.Conn) { c.Close(d, nil) }
	}
	for name, end := range map[string]struct {
		ends  func(transport.Conn)
		cause protocol.Disconnect
		after time.Duration
	}{
		"open":    {func(transport.Conn) {}, protocol.DisconnectWriteError, 10 * time.Second},
		"closing": {closes(protocol.DisconnectShutdown), protocol.DisconnectShutdown, 10 * time.Second},
		"slow":    {closes(protocol.DisconnectSlow), protocol.DisconnectSlow, 0},
		"gone":    {closes(protocol.DisconnectConnectionClosed), protocol.DisconnectConnectionClosed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, began := peertest.NewAcceptor(), time.Now()
				consume(t, start(t, a, Config{WriteTimeout: 10 * time.Second}))
				p := peertest.Await(t, a.Peers)
				fill(t, p)
				end.ends(p.Conn)
				if err := peertest.Await(t, p.Ended); !errors.Is(err, end.cause) {
					t.Errorf("Closed(%v), want %v", err, end.cause)
				}
				if took := time.Since(began); took != end.after {
					t.Errorf("it took %v, want %v", took, end.after)
				}
			})
		})
	}
}

// fill writes two large messages, of which gRPC takes the first one in any case.
func fill(t *testing.T, p *peertest.Peer) {
	t.Helper()
	for range 2 {
		if err := p.Write(push(200_000)); err != nil {
			t.Fatal(err)
		}
	}
}

// What gRPC keeps for streams that their client does not read is bounded: after maxDeaf of them the
// connection is closed.
func TestDeafStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := peertest.NewAcceptor()
		closed := make(chan string, 2)
		client := start(t, a, Config{WriteTimeout: 10 * time.Second, NotRead: func(addr string) { closed <- addr }})
		other := consume(t, client)
		peertest.Await(t, a.Peers)
		for n := 1; n <= maxDeaf; n++ {
			consume(t, client)
			p := peertest.Await(t, a.Peers)
			fill(t, p)
			if err := peertest.Await(t, p.Ended); !errors.Is(err, protocol.DisconnectWriteError) {
				t.Fatal(err)
			}
		}
		if _, err := other.Receive(); status.Code(err) != codes.Unavailable {
			t.Errorf("the connection goes on: %v", err)
		}
		if addr := peertest.Await(t, closed); addr == "" {
			t.Error("the address is missing")
		}
	})
}

// Streams that have sent no connect request are bounded: further ones are refused until one has.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := peertest.NewAcceptor()
		refused := make(chan string, 10)
		client := start(t, a, Config{Crowded: func(addr string) { refused <- addr }})
		open := func() (*schematest.Stream, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			s, err := schema.Open(ctx, client, "Consume")
			if err != nil {
				t.Fatal(err)
			}
			return s, cancel
		}
		var first context.CancelFunc
		for i := range maxWaiting {
			_, cancel := open()
			if i == 0 {
				first = cancel
			}
			peertest.Await(t, a.Peers)
		}
		s, _ := open()
		if _, err := s.Receive(); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("error %v", err)
		}
		if addr := peertest.Await(t, refused); addr == "" {
			t.Error("the address is missing")
		}
		first()
		synctest.Wait()
		for range 10 { // those that connect make room
			consume(t, client)
			peertest.Await(t, peertest.Await(t, a.Peers).Received)
			synctest.Wait()
		}
	})
}

// The peer is told when the client leaves.
func TestClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := peertest.NewAcceptor()
		client := start(t, a, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := schema.Open(ctx, client, "Consume", schema.Message("ConnectRequest", "")); err != nil {
			t.Fatal(err)
		}
		p := peertest.Await(t, a.Peers)
		if p.Info.Name != "uni_grpc" || p.Info.Mode != transport.OneWay || p.Info.RemoteAddr == "" || p.Info.Header().Get("Content-Type") != "application/grpc" {
			t.Errorf("info %+v", p.Info)
		}
		cancel()
		if err := peertest.Await(t, p.Ended); err == nil {
			t.Error("no cause")
		}
		if _, err := p.Conn.Write([][]byte{push(1)}); err == nil {
			t.Error("Write after the end")
		}
	})
}

// An acceptor that takes no connections, and one that panics.
func TestRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream := consume(t, start(t, &peertest.Acceptor{Refuse: protocol.DisconnectShutdown}, Config{}))
		if got, err := stream.Receive(); err != nil || got.Text("disconnect.code") != "3001" {
			t.Errorf("%v, %v", got, err)
		}
		if _, err := stream.Receive(); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		stream = consume(t, start(t, &peertest.Acceptor{Panics: "Accept"}, Config{}))
		if _, err := stream.Receive(); status.Code(err) != codes.Internal {
			t.Error(err)
		}
	})
}

// A peer that panics ends its stream, and nothing else.
func TestPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, method := range []string{"Receive", "Writable"} {
			a := peertest.NewAcceptor()
			a.Panics = method
			stream := consume(t, start(t, a, Config{WriteTimeout: time.Hour}))
			p := peertest.Await(t, a.Peers)
			if method == "Writable" {
				for n, err := 1, error(nil); n > 0 && err == nil; n, err = p.Conn.Write([][]byte{push(stashSize)}) {
				}
			}
			var err error
			for err == nil {
				_, err = stream.Receive()
			}
			if status.Code(err) != codes.Internal {
				t.Errorf("%s: the client got %v", method, err)
			}
			if _, ok := errors.AsType[*transport.Panic](peertest.Await(t, p.Ended)); !ok {
				t.Errorf("%s: Closed got another error", method)
			}
		}
	})
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
