package api

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/gyrohq/gyro/inspect"
)

// Info executes an info command.
func (e *Executor) Info(ctx context.Context, _ *InfoRequest) (*InfoResult, error) {
	nodes, err := e.node.Nodes(ctx)
	if err != nil {
		return nil, e.failed(ctx, MethodInfo, "", err)
	}
	res := &InfoResult{Nodes: make([]NodeResult, len(nodes))}
	for i, n := range nodes {
		res.Nodes[i] = NodeResult{
			UID: n.UID, Name: n.Name, Version: n.Version, NumClients: uint32(n.NumClients), NumUsers: uint32(n.NumUsers),
			NumChannels: uint32(n.NumChannels), Uptime: uint32(n.Uptime / time.Second), NumSubs: uint32(n.NumSubs),
		}
		if p := n.Process; p != (inspect.Process{}) {
			res.Nodes[i].Process = &Process{CPU: p.CPU, RSS: p.RSS}
		}
	}
	return res, nil
}

// RPC executes an rpc command.
func (e *Executor) RPC(ctx context.Context, r *RPCRequest) (*RPCResult, error) {
	if r.Method == "" {
		return nil, e.failed(ctx, MethodRPC, "", errNoMethod)
	}
	handler, ok := e.rpc[r.Method]
	if !ok {
		return nil, e.failed(ctx, MethodRPC, "", errMethod)
	}
	data, err := callRPC(ctx, handler, r.Params)
	if err != nil {
		apiErr := AsError(err)
		if apiErr == ErrInternal {
			e.refusals.Log.ErrorContext(ctx, "API RPC method failed", "method", r.Method, "error", err)
		}
		return nil, apiErr
	}
	return &RPCResult{Data: data}, nil
}

// callRPC recovers a panic of an extension: in a parallel batch no other code of the goroutine would.
func callRPC(ctx context.Context, h RPCHandler, params []byte) (data []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return h(ctx, params)
}
