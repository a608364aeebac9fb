// Package api executes the commands of the server API (docs/http-api.md), by which a backend acts on channels and
// connections. HTTP, gRPC and consumers decode a Request, call Executor, and encode the result (api.proto).
package api

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/channels"
)

// Node is the part of *gyro.Node that the API calls. Any goroutine may call it.
type Node interface {
	// PublishBatch keeps nothing of batch, and copies of channel names and keys.
	PublishBatch(ctx context.Context, batch []gyro.BatchPublication)
	gyro.Users
	Presence(ctx context.Context, ch string) (map[string]*gyro.ClientInfo, error)
	PresenceStats(ctx context.Context, ch string) (gyro.PresenceStats, error)
	History(ctx context.Context, ch string, f *gyro.HistoryFilter) (gyro.History, error)
	RemoveHistory(ctx context.Context, ch string) error
	// If nodes do not answer, these return the answers of the others and gyro.ErrNoAnswer.
	Channels(ctx context.Context, pattern string) (map[string]int, error)
	Connections(ctx context.Context, f inspect.Filter) (inspect.Connections, error)
	Flight(ctx context.Context, q inspect.Query) (inspect.Log, error)
	Nodes(ctx context.Context) ([]gyro.NodeInfo, error)
}

// NodeOf returns the Node of a *gyro.Node.
func NodeOf(n *gyro.Node) Node {
	return struct {
		*gyro.Node
		gyro.Users
		gyro.Cluster
		gyro.Inspector
	}{n, n.Users(), n.Cluster(), n.Inspect()}
}

// RPCHandler answers a method of the rpc command. params and the answer must be JSON for callers over HTTP. An error
// that wraps an *Error is sent to the caller; others are logged and become code 100. Any goroutine may call it.
type RPCHandler func(ctx context.Context, params []byte) ([]byte, error)

// Config of an Executor.
type Config struct {
	// Node and Channels are required. Channels returns the options in force; it is called once for each request, also
	// for a broadcast or a batch.
	Node     Node
	Channels func() *channels.Resolver
	// Insecure returns client.insecure in force; nil: off.
	Insecure func() bool
	// BatchSize is how many publications of a request go to the node at once: best as many as its broker takes. Default
	// 256.
	BatchSize int
	// Keyed executes map and shared poll methods; nil: code 108 after all checks.
	Keyed Keyed
	// RPC has the extension methods by name. It must not change.
	RPC map[string]RPCHandler
	// Statuses keeps the statuses of users; nil: code 108.
	Statuses Statuses
	// Logger gets refusals and failures with code 100. It is wrapped by logging.Wrap.
	Logger *slog.Logger
}

// Executor is the Service. All errors of its methods are *Error.
type Executor struct {
	node     Node
	channels func() *channels.Resolver
	insecure func() bool
	keyed    Keyed
	rpc      map[string]RPCHandler
	statuses Statuses // nil: none
	refusals refusal.Reporter
	// rights of the sender; nil: all.
	rights    Rights
	batchSize int
}

// NewExecutor panics without Node or Channels.
func NewExecutor(c Config) *Executor {
	if c.Node == nil || c.Channels == nil {
		panic("api: Config.Node and Config.Channels are required")
	}
	e := &Executor{node: c.Node, channels: c.Channels, insecure: c.Insecure, keyed: c.Keyed, rpc: c.RPC, statuses: c.Statuses, batchSize: cmp.Or(c.BatchSize, 256)}
	e.refusals.Log = logging.Wrap(c.Logger)
	return e
}

// frozen is an executor for several commands with the same channel options.
func (e *Executor) frozen() *Executor {
	inForce, out := e.channels(), *e
	out.channels = func() *channels.Resolver { return inForce }
	return &out
}

// Execute runs a request that the executor's rights allow.
func (e *Executor) Execute(ctx context.Context, r Request) (Result, error) {
	if err := e.permit(ctx, r); err != nil {
		return nil, err
	}
	return r.execute(ctx, e)
}

func (e *Executor) channel(name string) (channels.Channel, error) { return named(e.channels(), name) }

func named(resolver *channels.Resolver, name string) (channels.Channel, error) {
	if name == "" {
		return channels.Channel{}, errNoChannel
	}
	return resolver.Named(name)
}
