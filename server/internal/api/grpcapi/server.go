// Package grpcapi serves the server API over gRPC (docs/grpc-api.md).
package grpcapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // requests may be compressed
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/rights"
	"github.com/gyrohq/gyro/server/internal/web/grpcserver"
)

// Config of the gRPC API. The zero value refuses all calls.
type Config struct {
	// TLS of the listener. Default: plaintext.
	TLS *tls.Config
	// HandshakeFailed, if set, is called after a failed TLS handshake, on any goroutine.
	HandshakeFailed func(addr string, err error)
	// Guard returns the guard in force, for each call. Default: all calls are refused. Health and reflection need
	// neither a key nor a token.
	Guard func() *rights.Guard
	// ErrorMode is "" (errors in answers of status OK) or "transport" (errors as status), which metadata of a call can
	// request.
	ErrorMode string
	// MaxReceiveMessageSize is the largest request in bytes, after decompression. Larger ones get RESOURCE_EXHAUSTED.
	// Default: 4 MiB.
	MaxReceiveMessageSize int
	Reflection            bool
	// Ready, if set, decides the answer of the health service: SERVING if it returns nil. Any goroutine calls it; it
	// must not block.
	Ready    func() error
	Observer api.Observer
	Tracer   api.Tracer
	// Logger gets refusals. It is wrapped by logging.Wrap.
	Logger *slog.Logger
}

// Workers are goroutines that serve calls one after the other, with a stack that has grown. A call without a free worker
// gets a goroutine of its own.
const (
	workersPerCPU = 64
	maxWorkers    = 512
)

const modeTransport = "transport"

// Server serves the API on one listener.
type Server struct {
	*grpcserver.Server
	exec      *api.Executor
	guard     func() *rights.Guard
	transport bool
	observed  api.Observed
	tracer    api.Tracer // nil: calls are not traced
	refusals  refusal.Reporter
	closing   context.Context // ends with Stop
	close     context.CancelFunc
}

// New returns a server, or an error for a Config that cannot work.
func New(exec *api.Executor, c Config) (*Server, error) {
	if exec == nil {
		return nil, errors.New("grpcapi: an executor is required")
	}
	if c.ErrorMode != "" && c.ErrorMode != modeTransport {
		return nil, fmt.Errorf(`grpc_api.error_mode: %q is neither "" nor "transport"`, c.ErrorMode)
	}
	s := &Server{
		exec: exec, guard: c.Guard, transport: c.ErrorMode == modeTransport,
		observed: api.Observed{By: c.Observer}, tracer: c.Tracer, refusals: refusal.Reporter{Log: logging.Wrap(c.Logger)},
	}
	if s.guard == nil {
		closed, err := rights.New(rights.Config{Section: "grpc_api"})
		if err != nil {
			return nil, err
		}
		s.guard = func() *rights.Guard { return closed }
	}
	s.closing, s.close = context.WithCancel(context.Background())
	s.Server = grpcserver.New(c.TLS, c.HandshakeFailed,
		grpc.ForceServerCodecV2(codec{}),
		grpc.InTapHandle(s.enter),
		grpc.MaxRecvMsgSize(cmp.Or(c.MaxReceiveMessageSize, 4<<20)),
		grpc.NumStreamWorkers(uint32(min(workersPerCPU*runtime.GOMAXPROCS(0), maxWorkers))),
	)
	s.RegisterService(s.service(), s)
	healthpb.RegisterHealthServer(s, &health{ready: c.Ready, closing: s.closing})
	if c.Reflection {
		if err := reflect(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// service describes the methods. Requests and results are not messages of a Protobuf runtime, so no type implements it.
func (s *Server) service() *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{ServiceName: api.ServiceName, HandlerType: (*any)(nil), Metadata: schemaName}
	for _, m := range api.Methods() {
		d.Methods = append(d.Methods, grpc.MethodDesc{
			MethodName: m.RPC(),
			Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				return s.serve(ctx, m, decode)
			},
		})
	}
	return d
}

// Stop ends the accepting of connections and calls, and the streams of health and reflection. Running calls go on.
func (s *Server) Stop() {
	s.close()
	s.Server.Stop()
}

func (s *Server) serve(ctx context.Context, m api.Method, decode func(any) error) (answer any, err error) {
	defer func() {
		if r := recover(); r != nil {
			s.refusals.Log.ErrorContext(ctx, "API command panicked", "method", m.String(), "panic", r, "stack", string(debug.Stack()))
			answer, err = nil, status.Error(codes.Internal, api.ErrInternal.Message)
		}
	}()
	exec, err := s.admitted(ctx, m)
	if err != nil {
		return nil, err
	}
	c := &call{request: m.NewRequest(), field: fieldResult}
	if err := decode(c); err != nil {
		s.failed(ctx, m, api.StageRead)
		if status.Code(err) == codes.ResourceExhausted {
			s.refuse(ctx, prefix+m.RPC(), codes.ResourceExhausted,
				refusal.Because(err, "grpc_api.max_receive_message_size", "the request is longer than grpc_api.max_receive_message_size"))
		}
		return nil, err
	}
	if c.err != nil {
		s.failed(ctx, m, api.StageDecode)
		err := status.Errorf(codes.InvalidArgument, "the request is not a Protobuf message of type %s: %v", m.RPC()+"Request", c.err)
		s.refuse(ctx, prefix+m.RPC(), codes.InvalidArgument, refusal.Because(err, "", "the request is not a Protobuf message of its type"))
		return nil, err
	}
	res, err := s.execute(ctx, exec, m, c.request)
	switch {
	case err != nil && s.wantsTransport(ctx):
		return nil, statusOf(api.AsError(err))
	case err != nil:
		c.field, res = fieldError, api.AsError(err)
	case m == api.MethodBatch:
		c.field = 0
	}
	c.answer = res
	return c, nil
}

func (s *Server) execute(ctx context.Context, exec *api.Executor, m api.Method, r api.Request) (api.Result, error) {
	if s.tracer == nil {
		return s.observed.Execute(ctx, exec, m, r)
	}
	inner, span := s.tracer.Begin(ctx, m, r, fieldsOf(ctx))
	defer span.Abort()
	res, err := s.observed.Execute(inner, exec, m, r)
	code := codes.OK
	if err != nil && s.wantsTransport(ctx) {
		code = codeOf(api.AsError(err))
	}
	span.End(int(code), res, err)
	return res, err
}

// failed reports a failure before the execution.
func (s *Server) failed(ctx context.Context, m api.Method, stage api.Stage) {
	s.observed.Failed(m, stage)
	if s.tracer != nil {
		s.tracer.Failed(ctx, m, stage, fieldsOf(ctx))
	}
}

type fields metadata.MD

func fieldsOf(ctx context.Context) fields {
	md, _ := metadata.FromIncomingContext(ctx)
	return fields(md)
}

// Get implements api.Fields.
func (f fields) Get(name string) string {
	if values := metadata.MD(f).Get(name); len(values) > 0 {
		return values[0]
	}
	return ""
}

func (s *Server) wantsTransport(ctx context.Context) bool {
	if s.transport {
		return true
	}
	for _, key := range []string{"x-centrifugo-error-mode", "x-gyro-error-mode"} {
		if values := metadata.ValueFromIncomingContext(ctx, key); len(values) > 0 && values[0] == modeTransport {
			return true
		}
	}
	return false
}
