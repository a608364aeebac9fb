// Package unigrpc is the one-way transport over gRPC: a client sends a connect request and gets a stream of pushes.
// unistream.proto is its schema.
package unigrpc

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/gyrohq/gyro/server/internal/web/grpcserver"
	"github.com/gyrohq/gyro/transport"
)

// Config of a Server. The zero value is ready to use.
type Config struct {
	TLS *tls.Config
	// HandshakeFailed is called when a handshake of TLS has failed. It and the functions below are called on any
	// goroutine, and may be nil.
	HandshakeFailed func(addr string, err error)
	// MaxReceiveMessageSize is the most bytes of a connect request. Above it, the status is RESOURCE_EXHAUSTED. Default:
	// 64 KiB.
	MaxReceiveMessageSize int
	// After a silence of KeepaliveInterval the server asks, by an HTTP/2 ping, whether the client lives, and closes the
	// connection after KeepaliveTimeout without an answer. Defaults: 25 s, 10 s.
	KeepaliveInterval, KeepaliveTimeout time.Duration
	// WriteTimeout is how long its client may block a stream, before the client is gone with
	// protocol.DisconnectWriteError. A connection is closed after 16 such streams. Default: 1 s.
	WriteTimeout time.Duration
	// NotRead is called when a connection is closed for that.
	NotRead func(addr string)
	// Crowded is called for a stream that ends with status RESOURCE_EXHAUSTED because 100 others of its connection have
	// sent no connect request yet.
	Crowded func(addr string)
	// Admit is called for each new stream, with the address of the client, and must not block. After an error the stream
	// ends with status UNAVAILABLE and the text of the error.
	Admit func(addr string) error
}

const (
	idle         = time.Minute     // without a stream
	leastPingGap = 5 * time.Second // between the HTTP/2 pings of a client
	writeBuffer  = 16 << 10        // while something is written
	readBuffer   = 1 << 10         // clients send little
	// maxDeaf streams may end unread: gRPC keeps up to 64 KB and a message of each, for as long as the connection lasts.
	maxDeaf = 16
	// maxWaiting streams may be without a whole connect request. gRPC keeps the received part of each.
	maxWaiting = 100
)

const method = "/centrifugal.centrifugo.unistream.CentrifugoUniStream/Consume"

var service = grpc.ServiceDesc{
	ServiceName: "centrifugal.centrifugo.unistream.CentrifugoUniStream",
	HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{{
		StreamName: "Consume", ServerStreams: true,
		Handler: func(s any, stream grpc.ServerStream) error { return s.(*Server).consume(stream) },
	}},
	Metadata: "unistream.proto",
}

// Server serves the streams of one listener. The acceptor has to end them: Stop does not.
type Server struct {
	*grpcserver.Server
	acceptor transport.Acceptor
	cfg      Config
}

// New returns a server whose clients go to acceptor.
func New(acceptor transport.Acceptor, cfg Config) *Server {
	cfg.KeepaliveInterval = orDefault(cfg.KeepaliveInterval, 25*time.Second)
	cfg.KeepaliveTimeout = orDefault(cfg.KeepaliveTimeout, 10*time.Second)
	cfg.WriteTimeout = orDefault(cfg.WriteTimeout, time.Second)
	s := &Server{acceptor: acceptor, cfg: cfg}
	s.Server = grpcserver.New(cfg.TLS, cfg.HandshakeFailed,
		grpc.ForceServerCodecV2(codec{}),
		grpc.InTapHandle(s.enter),
		grpc.MaxRecvMsgSize(cmp.Or(cfg.MaxReceiveMessageSize, 64<<10)),
		grpc.WriteBufferSize(writeBuffer),
		grpc.ReadBufferSize(readBuffer),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idle, Time: cfg.KeepaliveInterval, Timeout: cfg.KeepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastPingGap, PermitWithoutStream: true}),
	)
	s.RegisterService(&service, s)
	return s
}

func orDefault(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}

// Serve takes connections from l until Stop, and closes l.
func (s *Server) Serve(l net.Listener) error {
	return s.Server.Serve(listener{l})
}

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &client{Conn: nc}, nil
}

type client struct {
	net.Conn
	deaf    atomic.Int32 // streams that ended because the client did not read them
	waiting atomic.Int32 // streams without a whole connect request
}

type address struct {
	net.Addr
	client *client
}

func (c *client) RemoteAddr() net.Addr { return address{c.Conn.RemoteAddr(), c} }

func clientOf(ctx context.Context) *client {
	p, _ := peer.FromContext(ctx)
	return p.Addr.(address).client
}

// notRead closes the connection of a client that has left too many streams unread.
func (s *Server) notRead(c *client) {
	if c.deaf.Add(1) != maxDeaf {
		return
	}
	_ = c.Close()
	if s.cfg.NotRead != nil {
		s.cfg.NotRead(c.RemoteAddr().String())
	}
}

type cancelKey struct{}

// enter is called for each new stream before it has a goroutine.
func (s *Server) enter(ctx context.Context, info *tap.Info) (context.Context, error) {
	if info.FullMethodName != method {
		return ctx, nil // which is answered with UNIMPLEMENTED
	}
	if s.cfg.Admit != nil {
		if err := s.cfg.Admit(grpcserver.Addr(ctx)); err != nil {
			return ctx, status.Error(codes.Unavailable, err.Error())
		}
	}
	// Only the end of its context ends a write that waits for the client.
	ctx, cancel := context.WithCancel(ctx)
	return context.WithValue(ctx, cancelKey{}, cancel), nil
}

// consume serves one stream, on the goroutine that writes all that the client gets.
func (s *Server) consume(stream grpc.ServerStream) error {
	ctx := stream.Context()
	cancel, _ := ctx.Value(cancelKey{}).(context.CancelFunc)
	defer cancel()
	of := clientOf(ctx)
	arrived := sync.OnceFunc(func() { of.waiting.Add(-1) })
	defer arrived()
	if of.waiting.Add(1) > maxWaiting {
		if s.cfg.Crowded != nil {
			s.cfg.Crowded(grpcserver.Addr(ctx))
		}
		return status.Error(codes.ResourceExhausted, "too many streams of the connection have sent no connect request")
	}
	c := &conn{stream: stream, cancel: cancel, arrived: arrived, wake: make(chan struct{}, 1), timeout: s.cfg.WriteTimeout}
	defer func() {
		if c.isDeaf() {
			s.notRead(of)
		}
	}()
	return c.serve(ctx, s.acceptor, transport.Info{
		Name: "uni_grpc", Framer: framer{}, RemoteAddr: grpcserver.Addr(ctx), HTTP: 2, Mode: transport.OneWay, DisconnectPush: true,
		Header: func() http.Header {
			md, _ := metadata.FromIncomingContext(ctx)
			return header(md)
		},
	})
}

func header(md metadata.MD) http.Header {
	h := make(http.Header, len(md))
	for key, values := range md {
		if key[0] != ':' {
			h[http.CanonicalHeaderKey(key)] = values
		}
	}
	return h
}
