package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gyrohq/gyro/server/internal/config"
)

const service = "/centrifugal.centrifugo.proxy.CentrifugoProxy/"

type grpcCarrier struct {
	conn    *grpc.ClientConn
	method  string
	static  metadata.MD
	forward *forward
	tracer  Tracer // nil: calls are not traced
}

// reconnect is how often gRPC tries an unreachable backend while there are calls. By default it waits for up to two
// minutes, in which all calls fail even if the backend is back.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
	MinConnectTimeout: 5 * time.Second,
}

func newGRPC(e Event, c *config.Proxy, f *forward, t Tracer) (*grpcCarrier, error) {
	secure, err := c.GRPC.TLS.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("grpc.tls.%w", err)
	}
	conn, err := grpc.NewClient(target(c.Endpoint), append(options(e, c), grpc.WithTransportCredentials(transport(secure)))...)
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	g := &grpcCarrier{conn: conn, method: service + table[e].method, static: metadata.New(c.GRPC.StaticMetadata), forward: f, tracer: t}
	if c.GRPC.CredentialsKey != "" {
		g.static.Set(c.GRPC.CredentialsKey, c.GRPC.CredentialsValue)
	}
	return g, nil
}

func options(e Event, c *config.Proxy) []grpc.DialOption {
	calls := []grpc.CallOption{grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(maxAnswer)}
	if c.GRPC.Compression {
		calls = append(calls, grpc.UseCompressor(gzip.Name))
	}
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(calls...), grpc.WithConnectParams(reconnect), grpc.WithKeepaliveParams(alive(e)), grpc.WithDisableRetry(),
	}
}

// alive finds connections to a host that is gone. Without it, calls on them time out for a quarter of an hour. Only
// connections with calls are pinged. Servers allow a ping every 5 minutes by default and end the connection after the
// third earlier one; calls usually take less than the 20 s here, streams may be silent for longer.
func alive(e Event) keepalive.ClientParameters {
	if e == SubscribeStream {
		return keepalive.ClientParameters{Time: 6 * time.Minute, Timeout: 20 * time.Second}
	}
	return keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 5 * time.Second}
}

func transport(secure *tls.Config) credentials.TransportCredentials {
	if secure == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(secure)
}

// target returns host and port of grpc://host:port/path, and other endpoints as they are.
func target(endpoint string) string {
	if !strings.HasPrefix(endpoint, "grpc://") {
		return endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return endpoint
	}
	return u.Host
}

func (g *grpcCarrier) close() { _ = g.conn.Close() }

type grpcAttempt struct {
	carrier *grpcCarrier
	req     Request
}

func (g *grpcCarrier) prepare(req Request) (attempt, error) { return grpcAttempt{g, req}, nil }

func (a grpcAttempt) send(ctx context.Context, deadline time.Time, from *From, res Response) error {
	g := a.carrier
	ctx, cancel := context.WithDeadline(g.outgoing(ctx, ctx, from), deadline)
	defer cancel()
	return answered(g.conn.Invoke(ctx, g.method, a.req, res))
}

func (grpcAttempt) release() {}

// answered returns the error of a gRPC call as guard expects it.
func answered(err error) error {
	switch code := status.Code(err); {
	case err == nil || code == codes.Unavailable || errors.Is(err, errFirst):
		return err
	case code == codes.DeadlineExceeded:
		return errTimeout
	}
	return fmt.Errorf("%w: %w", errStatus, err)
}

const errStatus = unusable("the backend fails the call")

// outgoing returns ctx with the metadata of a call. traced has its span.
func (g *grpcCarrier) outgoing(ctx, traced context.Context, from *From) context.Context {
	md := g.static
	if from != nil || g.tracer != nil {
		md = maps.Clone(md)
		g.forward.fields(from, func(name string, values []string) {
			values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return !printable(v) })
			md[strings.ToLower(name)] = values
		})
	}
	if g.tracer != nil {
		g.tracer.Inject(traced, func(name, value string) { md.Set(name, value) })
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// printable tells whether metadata can have the value; gRPC fails calls with others.
func printable(value string) bool {
	for i := range len(value) {
		if value[i] < ' ' || value[i] > '~' {
			return false
		}
	}
	return true
}

// codec encodes the messages of package message without reflection.
type codec struct{}

// Marshal implements encoding.CodecV2.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	m := v.(Request)
	return mem.BufferSlice{mem.SliceBuffer(m.AppendProto(make([]byte, 0, m.SizeProto())))}, nil
}

// Unmarshal implements encoding.CodecV2.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	return v.(Response).UnmarshalProto(data.Materialize())
}

// Name implements encoding.CodecV2.
func (codec) Name() string { return "proto" }
