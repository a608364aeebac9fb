package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/grpcapi"
	"github.com/gyrohq/gyro/server/internal/api/rights"
	"github.com/gyrohq/gyro/server/internal/app/internal/admission"
	"github.com/gyrohq/gyro/server/internal/transports/unigrpc"
	"github.com/gyrohq/gyro/server/internal/web/certs"
	"github.com/gyrohq/gyro/server/internal/web/reserve"
)

// The names of the gRPC listeners, which are the sections of their keys.
const (
	uniGRPCName = "uni_grpc" // one-way clients
	grpcAPIName = "grpc_api" // the server API
)

// grpcLinger is how long a shutdown waits for gRPC clients to read what they were sent last.
const grpcLinger = 5 * time.Second

// grpcListener is one address and the gRPC server there.
type grpcListener struct {
	name   string
	addr   string
	secure bool
	server interface {
		Serve(l net.Listener) error
		Stop()
		Wait(ctx context.Context, linger time.Duration) error
	}
	linger time.Duration
	ln     net.Listener
}

// makeGRPC prepares the gRPC listeners that are enabled.
func (a *App) makeGRPC(exec *api.Executor) error {
	if c := &a.cfg.UniGRPC; c.Enabled {
		tls, err := a.certs.Config(uniGRPCName+".tls", c.TLS, "h2")
		if err != nil {
			return err
		}
		server := unigrpc.New(a.node, unigrpc.Config{
			TLS: tls, HandshakeFailed: a.handshakeFailed(uniGRPCName), MaxReceiveMessageSize: c.MaxReceiveMessageSize, Admit: a.admit,
			KeepaliveInterval: a.cfg.Client.PingInterval, KeepaliveTimeout: a.cfg.Client.PongTimeout,
			NotRead: a.streamsNotRead, Crowded: a.streamsCrowded,
		})
		a.grpc = append(a.grpc, &grpcListener{
			name: uniGRPCName, addr: joinAddr(c.Address, strconv.Itoa(c.Port)), secure: tls != nil, server: server, linger: grpcLinger,
		})
	}
	if c := &a.cfg.GRPCAPI; c.Enabled {
		tls, err := a.certs.Config(grpcAPIName+".tls", c.TLS, "h2")
		if err != nil {
			return err
		}
		server, err := grpcapi.New(exec, grpcapi.Config{
			TLS: tls, HandshakeFailed: a.handshakeFailed(grpcAPIName), ErrorMode: c.ErrorMode,
			Guard:                 func() *rights.Guard { return a.inForce.Load().grpcSenders },
			MaxReceiveMessageSize: c.MaxReceiveMessageSize, Reflection: c.Reflection, Ready: a.readiness(),
			Observer: a.meters.grpc, Tracer: a.tracer.GRPC(), Logger: a.log,
		})
		if err != nil {
			return err
		}
		a.grpc = append(a.grpc, &grpcListener{
			name: grpcAPIName, addr: joinAddr(c.Address, strconv.Itoa(c.Port)), secure: tls != nil, server: server,
			linger: a.cfg.Shutdown.Timeout, // calls that are under way finish
		})
	}
	return nil
}

// handshakeFailed returns a function that reports the handshakes of a listener that the configuration
// forbids. Clients cause others.
func (a *App) handshakeFailed(listener string) func(addr string, err error) {
	return func(addr string, err error) {
		if reason := certs.Refusal(listener+".tls", err.Error()); reason != nil {
			refusal.Reporter{Log: a.log}.Report(refusal.Refusal{Kind: "connection refused: its TLS is not allowed", Addr: addr}, 0, reason)
			return
		}
		a.log.Debug("gRPC server: TLS handshake failed", "listener", listener, "addr", addr, "error", err)
	}
}

// streamsNotRead reports that a connection was closed because its client does not read.
func (a *App) streamsNotRead(addr string) {
	d := protocol.DisconnectWriteError
	refusal.Reporter{Log: a.log}.Report(refusal.Refusal{Kind: "connection closed: its client does not read", Addr: addr},
		d.Code, refusal.Because(d, "", "16 of its streams have ended because the client did not read them"))
}

// streamsCrowded reports that a stream is refused because too many of its connection do not connect.
func (a *App) streamsCrowded(addr string) {
	refusal.Reporter{Log: a.log}.Report(refusal.Refusal{Kind: "connection refused: others of the client do not connect", Addr: addr},
		0, refusal.Because(admission.ErrUnavailable, "", "100 streams of the client's connection have sent no connect request"))
}

// admit applies the limits of client connections to a new one that no gate sees.
func (a *App) admit(addr string) error {
	level, err := a.limits.Admit()
	if err == nil {
		return nil
	}
	refusals := refusal.Reporter{Log: a.log}
	refusals.Report(refusal.Refusal{Kind: "connection refused: there are too many", Level: level, Addr: addr}, http.StatusServiceUnavailable, err)
	return admission.ErrUnavailable
}

func (g *grpcListener) open(r *reserve.Reserve) error {
	ln, err := listening.Listen(context.Background(), "tcp", g.addr)
	if err != nil {
		return fmt.Errorf("%s: listener: %w", g.name, err)
	}
	g.ln = r.ForClients(g.name, ln)
	return nil
}

func (g *grpcListener) serve() error {
	if err := g.server.Serve(g.ln); err != nil {
		return fmt.Errorf("%s: listener: %w", g.name, err)
	}
	return nil
}

// shutdown waits, after Stop, until the streams have ended. The node has ended its clients.
func (g *grpcListener) shutdown(ctx context.Context) error {
	if err := g.server.Wait(ctx, g.linger); err != nil {
		return fmt.Errorf("%s: clients did not leave in time: %w", g.name, err)
	}
	return nil
}
