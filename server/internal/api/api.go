// Package api executes the commands of the server API (docs/http-api.md), with which a backend acts on channels and
// connections. It knows nothing of HTTP, so that every way in (HTTP, gRPC, consumers of queues) shares one behaviour:
// they decode a Request, call Executor, and encode its result. api.proto describes requests and results.
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

// Node is the part of *gyro.Node that the API calls. Its methods may be called from any goroutine.
type Node interface {
	// PublishBatch keeps nothing of batch, and of channel names and keys only copies.
	PublishBatch(ctx context.Context, batch []gyro.BatchPublication)
	gyro.Users
	Presence(ctx context.Context, ch string) (map[string]*gyro.ClientInfo, error)
	PresenceStats(ctx context.Context, ch string) (gyro.PresenceStats, error)
	History(ctx context.Context, ch string, f *gyro.HistoryFilter) (gyro.History, error)
	RemoveHistory(ctx context.Context, ch string) error
	// If nodes do not answer, Channels, Connections and Flight return the answers of the others and gyro.ErrNoAnswer.
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

// RPCHandler answers one method of the rpc command. params and the reply are
// JSON if the callers use the HTTP API. An error that is (or wraps) an *Error is
// handed to the caller; any other is logged and becomes code 100. It may be
// called from any goroutine.
type RPCHandler func(ctx context.Context, params []byte) ([]byte, error)

// Config of an Executor.
type Config struct {
	// Node and Channels are required. Channels returns the options that are in force;
	// it is called once for each request, be it a broadcast or a batch.
	Node     Node
	Channels func() *channels.Resolver
	// Insecure tells whether client.insecure is in force, for explanations; nil: it is not.
	Insecure func() bool
	// BatchSize is how many publications of a request are gathered before they go to the
	// node, which is best as many as its broker is handed at once. Default 256.
	BatchSize int
	// Keyed executes the map and shared poll methods; nil: they answer code 108
	// once the request has passed every check.
	Keyed Keyed
	// RPC are the extension methods by name. The map is not copied: do not change
	// it later.
	RPC map[string]RPCHandler
	// Statuses keeps the statuses of users; nil: the methods answer code 108.
	Statuses Statuses
	// Logger hears why commands are refused, and of failures behind code 100. It is wrapped
	// by logging.Wrap; nil: slog.Default().
	Logger *slog.Logger
}

// Executor is the Service. Every error that its methods return is an *Error.
type Executor struct {
	node     Node
	channels func() *channels.Resolver
	insecure func() bool
	keyed    Keyed
	rpc      map[string]RPCHandler
	statuses Statuses // nil: none
	refusals refusal.Reporter
	// rights are the rights of the sender; nil: everything.
	rights    Rights
	batchSize int
}

// NewExecutor returns an executor. It panics without Node or Channels.
func NewExecutor(c Config) *Executor {
	if c.Node == nil || c.Channels == nil {
		panic("api: Config.Node and Config.Channels are required")
	}
	e := &Executor{node: c.Node, channels: c.Channels, insecure: c.Insecure, keyed: c.Keyed, rpc: c.RPC, statuses: c.Statuses, batchSize: cmp.Or(c.BatchSize, 256)}
	e.refusals.Log = logging.Wrap(c.Logger)
	return e
}

// frozen is an executor for several commands that the same channel options decide on.
func (e *Executor) frozen() *Executor {
	inForce, out := e.channels(), *e
	out.channels = func() *channels.Resolver { return inForce }
	return &out
}

// Execute runs any request that the executor's rights allow.
func (e *Executor) Execute(ctx context.Context, r Request) (Result, error) {
	if err := e.permit(ctx, r); err != nil {
		return nil, err
	}
	return r.execute(ctx, e)
}

// channel resolves the one channel that a request requires.
func (e *Executor) channel(name string) (channels.Channel, error) { return named(e.channels(), name) }

func named(resolver *channels.Resolver, name string) (channels.Channel, error) {
	if name == "" {
		return channels.Channel{}, errNoChannel
	}
	return resolver.Named(name)
}
