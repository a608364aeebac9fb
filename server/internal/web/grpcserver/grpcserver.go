// Package grpcserver has the common parts of Gyro's gRPC servers: limits of connections, reports of failed handshakes,
// and the shutdown.
package grpcserver

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

const (
	maxStreams     = 1000             // at a time
	maxHeaderBytes = 64 << 10         // of a request
	greeting       = 10 * time.Second // for the handshakes of TLS and HTTP/2
)

// Server serves the connections of one listener.
type Server struct {
	*grpc.Server
	stop    sync.Once
	stopped chan struct{} // closed when all connections are closed, after Stop
}

// New returns a server. t is the TLS of its listener; nil: plaintext. failed, if set, is called after a failed
// handshake, on any goroutine.
func New(t *tls.Config, failed func(addr string, err error), options ...grpc.ServerOption) *Server {
	options = append([]grpc.ServerOption{
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ConnectionTimeout(greeting),
	}, options...)
	if t != nil {
		options = append(options, grpc.Creds(&reporting{credentials.NewTLS(t), failed}))
	}
	return &Server{Server: grpc.NewServer(options...), stopped: make(chan struct{})}
}

type reporting struct {
	credentials.TransportCredentials
	failed func(addr string, err error) // nil: failures are not reported
}

func (r *reporting) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := r.TransportCredentials.ServerHandshake(c)
	if err != nil && r.failed != nil {
		r.failed(c.RemoteAddr().String(), err)
	}
	return conn, info, err
}

// Serve serves the connections of l until Stop, and closes l.
func (s *Server) Serve(l net.Listener) error {
	if err := s.Server.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Stop ends the accepting of connections and streams. Streams go on.
func (s *Server) Stop() {
	s.stop.Do(func() {
		go func() {
			defer close(s.stopped)
			s.GracefulStop()
		}()
	})
}

// Wait waits, after Stop, for the end of all streams and connections, at most for linger, because clients may not read.
// If ctx ends, it cuts the streams off and returns the error of ctx.
func (s *Server) Wait(ctx context.Context, linger time.Duration) error {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	var err error
	select {
	case <-s.stopped:
	case <-timer.C:
		s.Server.Stop()
	case <-ctx.Done():
		err = ctx.Err()
		s.Server.Stop()
	}
	<-s.stopped
	return err
}

// Addr returns the address of the client, from the context of a stream.
func Addr(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}
