package web

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/transports/unigrpc"
	"github.com/gyrohq/gyro/server/internal/web/certs"
)

// The names of the gRPC listeners are the sections of their keys.
const (
	UniGRPC = "uni_grpc" // one-way clients
	GRPCAPI = "grpc_api" // the server API
)

// grpcLinger is how long a shutdown waits for gRPC clients to read their last messages.
const grpcLinger = 5 * time.Second

// GRPCServer is the server of a GRPCListener.
type GRPCServer interface {
	Serve(l net.Listener) error
	Stop()
	Wait(ctx context.Context, linger time.Duration) error
}

// GRPCListener is an address and its gRPC server.
type GRPCListener struct {
	Name   string
	Secure bool // it has TLS
	Server GRPCServer
	addr   string
	linger time.Duration
	ln     net.Listener
}

// NewGRPCListener returns a listener. In a shutdown, clients get the time linger to read their last messages.
func NewGRPCListener(name, host string, port int, secure bool, s GRPCServer, linger time.Duration) *GRPCListener {
	return &GRPCListener{Name: name, addr: joinAddr(host, strconv.Itoa(port)), Secure: secure, Server: s, linger: linger}
}

// UniGRPC returns the listener of one-way gRPC clients; nil if it is off.
func (w *Web) UniGRPC(store *certs.Store) (*GRPCListener, error) {
	c, client := &w.Settings.UniGRPC, &w.Settings.Client
	if !c.Enabled {
		return nil, nil
	}
	tls, err := store.Config(UniGRPC+".tls", c.TLS, "h2")
	if err != nil {
		return nil, err
	}
	server := unigrpc.New(w.Node, unigrpc.Config{
		TLS: tls, HandshakeFailed: w.HandshakeFailed(UniGRPC), MaxReceiveMessageSize: c.MaxReceiveMessageSize, Admit: w.Admit,
		KeepaliveInterval: client.PingInterval, KeepaliveTimeout: client.PongTimeout,
		NotRead: w.streamsNotRead, Crowded: w.streamsCrowded,
	})
	return NewGRPCListener(UniGRPC, c.Address, c.Port, tls != nil, server, grpcLinger), nil
}

// HandshakeFailed reports the handshakes that the configuration forbids. Clients cause the others.
func (w *Web) HandshakeFailed(listener string) func(addr string, err error) {
	return func(addr string, err error) {
		if reason := certs.Refusal(listener+".tls", err.Error()); reason != nil {
			refusal.Reporter{Log: w.Log}.Report(refusal.Refusal{Kind: "connection refused: its TLS is not allowed", Addr: addr}, 0, reason)
			return
		}
		w.Log.Debug("gRPC server: TLS handshake failed", "listener", listener, "addr", addr, "error", err)
	}
}

func (w *Web) streamsNotRead(addr string) {
	d := protocol.DisconnectWriteError
	refusal.Reporter{Log: w.Log}.Report(refusal.Refusal{Kind: "connection closed: its client does not read", Addr: addr},
		d.Code, refusal.Because(d, "", "16 of its streams have ended because the client did not read them"))
}

func (w *Web) streamsCrowded(addr string) {
	refusal.Reporter{Log: w.Log}.Report(refusal.Refusal{Kind: "connection refused: others of the client do not connect", Addr: addr},
		0, refusal.Because(ErrUnavailable, "", "100 streams of the client's connection have sent no connect request"))
}

// Admit applies the limits of connections where there is no gate.
func (w *Web) Admit(addr string) error {
	level, err := w.Limits.Admit()
	if err == nil {
		return nil
	}
	refusals := refusal.Reporter{Log: w.Log}
	refusals.Report(refusal.Refusal{Kind: "connection refused: there are too many", Level: level, Addr: addr}, http.StatusServiceUnavailable, err)
	return ErrUnavailable
}

// Open opens the socket.
func (g *GRPCListener) Open(r *Reserve) error {
	ln, err := listening.Listen(context.Background(), "tcp", g.addr)
	if err != nil {
		return fmt.Errorf("%s: listener: %w", g.Name, err)
	}
	g.ln = r.ForClients(g.Name, ln)
	return nil
}

// Address returns the address of an open listener, with the port that the system chose, else "".
func (g *GRPCListener) Address() string { return addressOf(g.ln) }

// Attrs describe an open listener in the log.
func (g *GRPCListener) Attrs() []any {
	return []any{"listener", g.Name, "address", g.Address(), "tls", g.Secure}
}

// Close closes the socket of a listener that does not serve.
func (g *GRPCListener) Close() error { return g.ln.Close() }

// Serve blocks until the server is stopped.
func (g *GRPCListener) Serve() error {
	if err := g.Server.Serve(g.ln); err != nil {
		return fmt.Errorf("%s: listener: %w", g.Name, err)
	}
	return nil
}

// Shutdown waits, after Stop, for the end of the streams.
func (g *GRPCListener) Shutdown(ctx context.Context) error {
	if err := g.Server.Wait(ctx, g.linger); err != nil {
		return fmt.Errorf("%s: clients did not leave in time: %w", g.Name, err)
	}
	return nil
}
