package grpcapi

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/rights"
	"github.com/gyrohq/gyro/server/internal/web/grpcserver"
)

// prefix of the methods that need a key or a token.
const prefix = "/" + api.ServiceName + "/"

// presented returns the credentials of a call. The first metadata authorization counts; the word apikey and the space
// after it are compared exactly.
func presented(authorization []string) rights.Credentials {
	if len(authorization) == 0 {
		return rights.Credentials{}
	}
	if key, ok := strings.CutPrefix(authorization[0], "apikey "); ok {
		return rights.Credentials{Key: key}
	}
	return rights.Credentials{Token: rights.Authorization(authorization[0]).Token}
}

// sender is the result of enter, in the context of the call; for a sender with all rights there is none.
type sender struct {
	exec *api.Executor // nil: guard must verify token
	// guard was in force when the call came.
	guard *rights.Guard
	token string
}

type senderKey struct{}

// errUnauthenticated has the text of Centrifugo.
var errUnauthenticated = status.Error(codes.Unauthenticated, "unauthenticated")

// enter is called for each call before its request is read, on the goroutine of the connection. It leaves tokens to the
// call's goroutine, because they may need a fetch of keys.
func (s *Server) enter(ctx context.Context, info *tap.Info) (context.Context, error) {
	if !strings.HasPrefix(info.FullMethodName, prefix) {
		return s.untilStop(ctx), nil
	}
	guard, c := s.guard(), presented(info.Header["authorization"])
	if c.Token != "" && guard.Verifies() {
		return context.WithValue(ctx, senderKey{}, sender{guard: guard, token: c.Token}), nil
	}
	exec, err := guard.Admit(ctx, s.exec, c)
	switch {
	case err != nil:
		key, text := refusal.Explain(err)
		if c.Key == "" {
			text += `: it is the metadata authorization with the value "apikey KEY"`
		}
		s.refuse(ctx, info.FullMethodName, codes.Unauthenticated, refusal.Because(errUnauthenticated, key, text))
		return ctx, errUnauthenticated
	case exec == s.exec:
		return ctx, nil
	}
	return context.WithValue(ctx, senderKey{}, sender{exec: exec}), nil
}

// admitted returns the executor of a call, with the rights of its sender.
func (s *Server) admitted(ctx context.Context, m api.Method) (*api.Executor, error) {
	from, found := ctx.Value(senderKey{}).(sender)
	switch {
	case !found:
		return s.exec, nil
	case from.exec != nil:
		return from.exec, nil
	}
	exec, err := from.guard.Admit(ctx, s.exec, rights.Credentials{Token: from.token})
	if err != nil {
		_, text := refusal.Explain(err)
		answer := status.Error(codes.Unauthenticated, "unauthenticated: "+text)
		s.refuse(ctx, prefix+m.RPC(), codes.Unauthenticated, refusal.Answer(answer, err))
		return nil, answer
	}
	return exec, nil
}

func (s *Server) untilStop(ctx context.Context) context.Context {
	call, cancel := context.WithCancel(ctx)
	forget := context.AfterFunc(s.closing, cancel)
	context.AfterFunc(ctx, func() { forget() })
	return call
}

func (s *Server) refuse(ctx context.Context, method string, code codes.Code, err error) {
	s.refusals.Report(refusal.Refusal{Kind: "API request refused", Addr: grpcserver.Addr(ctx), Path: method}, uint32(code), err)
}
