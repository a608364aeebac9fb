package api

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/gyrohq/gyro"
)

// InfoRequest asks for the nodes of the cluster (server-api.md 6.12).
type InfoRequest struct{}

// InfoResult has one element per node, in no particular order.
type InfoResult struct {
	Nodes []gyro.NodeInfo
}

// RPCRequest calls an extension method (server-api.md 6.13).
type RPCRequest struct {
	// Name of the extension method.
	Name string
	// Params is any JSON over HTTP.
	Params []byte
}

// RPCResult is the answer of the extension.
type RPCResult struct {
	Data []byte
}

// Info executes an info command.
func (e *Executor) Info(ctx context.Context, _ *InfoRequest) (*InfoResult, error) {
	nodes, err := e.node.Info(ctx)
	if err != nil {
		return nil, e.failed(ctx, MethodInfo, "", err)
	}
	return &InfoResult{Nodes: nodes}, nil
}

// RPC executes an rpc command.
func (e *Executor) RPC(ctx context.Context, r *RPCRequest) (*RPCResult, error) {
	if r.Name == "" {
		return nil, ErrBadRequest
	}
	handler, ok := e.rpc[r.Name]
	if !ok {
		return nil, ErrNotFound
	}
	data, err := callRPC(ctx, handler, r.Params)
	if err != nil {
		apiErr := AsError(err)
		if apiErr == ErrInternal {
			e.log.ErrorContext(ctx, "API RPC method failed", "method", r.Name, "error", err)
		}
		return nil, apiErr
	}
	return &RPCResult{Data: data}, nil
}

// callRPC keeps a panic of an extension from ending the process: in a parallel
// batch no other code of the goroutine would stop it.
func callRPC(ctx context.Context, h RPCHandler, params []byte) (data []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return h(ctx, params)
}
