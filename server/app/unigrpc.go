package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/certs"
	"github.com/gyrohq/gyro/server/unigrpc"
)

// The name of the listener of one-way gRPC clients, and the key of its TLS object.
const (
	uniGRPCName = "uni_grpc"
	uniGRPCTLS  = "uni_grpc.tls"
)

// grpcLinger is how long a shutdown waits for gRPC clients to read what they were sent last.
const grpcLinger = 5 * time.Second

// grpcListener is one address and the gRPC server there.
type grpcListener struct {
	addr   string
	server *unigrpc.Server
	ln     net.Listener
}

// makeUniGRPC prepares the listener of one-way gRPC clients; nil if it is not enabled.
func (a *App) makeUniGRPC() (*grpcListener, error) {
	c := &a.cfg.UniGRPC
	if !c.Enabled {
		return nil, nil
	}
	tls, err := a.certs.Config(uniGRPCTLS, c.TLS, "h2")
	if err != nil {
		return nil, err
	}
	server := unigrpc.New(a.node, unigrpc.Config{
		TLS: tls, HandshakeFailed: a.streamHandshakeFailed, MaxReceiveMessageSize: c.MaxReceiveMessageSize, Admit: a.admit,
		KeepaliveInterval: a.cfg.Client.PingInterval, KeepaliveTimeout: a.cfg.Client.PongTimeout,
		NotRead: a.streamsNotRead,
	})
	return &grpcListener{addr: joinAddr(c.Address, strconv.Itoa(c.Port)), server: server}, nil
}

// streamHandshakeFailed reports handshakes that the configuration forbids. Clients cause others.
func (a *App) streamHandshakeFailed(addr string, err error) {
	if reason := certs.Refusal(uniGRPCTLS, err.Error()); reason != nil {
		refusal.Reporter{Log: a.log}.Report(refusal.Refusal{Kind: "connection refused: its TLS is not allowed", Addr: addr}, 0, reason)
		return
	}
	a.log.Debug("gRPC server: TLS handshake failed", "addr", addr, "error", err)
}

// streamsNotRead reports that a connection was closed because its client does not read.
func (a *App) streamsNotRead(addr string) {
	d := protocol.DisconnectWriteError
	refusal.Reporter{Log: a.log}.Report(refusal.Refusal{Kind: "connection closed: its client does not read", Addr: addr},
		d.Code, refusal.Because(d, "", "16 of its streams have ended because the client did not read them"))
}

// admit applies the limits of client connections to a new one that no gate sees.
func (a *App) admit(addr string) error {
	level, err := a.limits.admit()
	if err == nil {
		return nil
	}
	refusals := refusal.Reporter{Log: a.log}
	refusals.Report(refusal.Refusal{Kind: "connection refused: there are too many", Level: level, Addr: addr}, http.StatusServiceUnavailable, err)
	return errUnavailable
}

func (g *grpcListener) open(r *reserve) error {
	ln, err := net.Listen("tcp", g.addr)
	if err != nil {
		return fmt.Errorf("uni_grpc: listener: %w", err)
	}
	g.ln = r.forClients(ln)
	return nil
}

func (g *grpcListener) serve() error {
	if err := g.server.Serve(g.ln); err != nil {
		return fmt.Errorf("uni_grpc: listener: %w", err)
	}
	return nil
}

// shutdown waits until the streams have ended. The node has ended its clients.
func (g *grpcListener) shutdown(ctx context.Context) error {
	if err := g.server.Wait(ctx, grpcLinger); err != nil {
		return errors.Join(errors.New("uni_grpc: clients did not leave in time"), err)
	}
	return nil
}
