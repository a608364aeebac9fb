// Package gyro is a real-time messaging library: clients keep a connection,
// subscribe to channels, send messages and call RPCs; the program publishes. It
// speaks the Centrifugal client protocol v2.
package gyro

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/internal/attach"
	"github.com/gyrohq/gyro/internal/clientid"
	"github.com/gyrohq/gyro/internal/cluster"
	"github.com/gyrohq/gyro/internal/fanout"
	"github.com/gyrohq/gyro/internal/lane"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/poll"
	"github.com/gyrohq/gyro/internal/position"
	"github.com/gyrohq/gyro/internal/pulse"
	"github.com/gyrohq/gyro/internal/route"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/internal/users"
	"github.com/gyrohq/gyro/internal/via"
	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// Node is one process's share of the system: it owns the sessions of its clients
// and talks to the broker. All methods may be called from any goroutine.
type Node struct {
	cfg     Config
	log     *slog.Logger
	uid     string
	started time.Time
	session *session.Config
	// broker, presence and routes are those of engines.
	engines  *attach.Engines
	broker   broker.Broker
	presence broker.PresenceManager
	routes   *route.Table
	// positions finds what subscriptions have missed.
	positions *position.Checker
	fanout    *fanout.Fanout
	shards    []*shard
	users     users.Counts
	pulse     *pulse.Pulse
	cluster   *cluster.Cluster
	// subs is the number of subscriptions as it was when it was asked for last.
	subs atomic.Int64

	// handling is the context of handlers, which stop ends.
	handling context.Context
	stop     context.CancelFunc

	accepted atomic.Uint32 // connections, modulo 2^32
	panics   atomic.Uint64
	// clients counts the connections that transports hold, loops the running loops,
	// work the lanes at work.
	clients, loops sync.WaitGroup
	work           lane.Tally

	mu       sync.Mutex
	running  bool
	shutdown bool
	kinds    via.Kinds
	// closing is set when no client is taken any more; under mu.
	closing atomic.Bool

	// ended is closed when a shutdown is complete; endErr is its outcome.
	ended  chan struct{}
	endErr error
}

// New returns a node, which takes clients after Run. An error names the field of
// cfg that is wrong.
func New(cfg Config) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, log: cfg.Logger, uid: uuid.NewString(), started: time.Now(),
		session: cfg.session(), broker: cfg.Broker,
		ended: make(chan struct{}),
	}
	n.handling, n.stop = context.WithCancel(context.Background())
	if n.cfg.Name == "" {
		n.cfg.Name = n.uid
	}
	n.engines = attach.New(cfg.Broker, cfg.Presence, cfg.EngineConcurrency, n.log)
	n.presence, n.routes = n.engines.Presence, n.engines.Routes
	loops := make([]*loop.Loop, runtime.GOMAXPROCS(0)) // which own the sessions
	n.fanout = &fanout.Fanout{Routes: n.routes, Loops: loops}
	n.positions = position.New(position.Config{
		Broker: cfg.Broker, Routes: n.routes, Rounds: n.session.Rounds, Post: n.fanout.Post,
		Delay: cfg.PositionCheckDelay, Log: n.log,
	})
	n.engines.Watch, n.fanout.Lost = n.positions.Watch, n.positions.Lost
	for i := range loops {
		loops[i] = loop.New()
		s := &shard{node: n, index: i, loop: loops[i], users: make(map[string][]*Client)}
		s.lanes = lane.Group{Loop: s.loop, Concurrency: cfg.Concurrency, Workers: &n.work}
		s.loop.OnPanic = s.panicked
		n.shards = append(n.shards, s)
	}
	n.pulse = pulse.New(loops)
	n.cluster = cluster.New(cluster.Config{UID: n.uid, Controller: cfg.Controller, Handler: (*members)(n), Logger: n.log})
	return n, nil
}

// Run starts the node, joins the cluster if there is a controller, and returns. It
// must be called once. That other nodes cannot be reached yet is logged and no error.
func (n *Node) Run() error {
	if err := n.start(); err != nil {
		return err
	}
	n.cluster.Start()
	return nil
}

func (n *Node) start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running || n.shutdown {
		return errors.New("gyro: node was started already")
	}
	if err := n.cluster.Listen(); err != nil {
		return err
	}
	if err := n.broker.Run(n.fanout); err != nil {
		return err
	}
	n.running = true
	for _, s := range n.shards {
		n.loops.Go(s.loop.Run)
	}
	n.pulse.Begin()
	return nil
}

// UID of the node: a random UUID.
func (n *Node) UID() string { return n.uid }

// Accept takes a connection from a transport. It implements transport.Acceptor.
func (n *Node) Accept(ctx context.Context, conn transport.Conn, info transport.Info) (transport.Peer, error) {
	c, err := n.admit(n.nextShard(), ctx, info)
	if err != nil {
		return nil, err
	}
	kind := n.kind(&info)
	c.post(func() {
		if c.begin(conn, kind); n.closing.Load() {
			// The others were disconnected before this one was there.
			c.session.Dismiss(protocol.DisconnectShutdown)
		}
	})
	return c.peer(), nil
}

// NextLoop implements transport.LoopAcceptor.
func (n *Node) NextLoop() transport.Loop {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cfg.GoroutineDriver || !poll.Supported() || !n.running || n.closing.Load() {
		return nil
	}
	return n.nextShard().loop.Sockets()
}

// AcceptOn implements transport.LoopAcceptor: it takes a connection whose socket
// is watched by l, one of NextLoop, on which it is called.
func (n *Node) AcceptOn(l transport.Loop, ctx context.Context, conn transport.Conn, info transport.Info) (transport.Peer, error) {
	i := slices.IndexFunc(n.shards, func(s *shard) bool { return s.loop.Sockets() == l })
	c, err := n.admit(n.shards[i], ctx, info)
	if err != nil {
		return nil, err
	}
	c.begin(conn, n.kind(&info))
	return (*direct)(c), nil
}

func (n *Node) nextShard() *shard {
	return n.shards[int(n.accepted.Add(1))%len(n.shards)]
}

// admit makes the client of a new connection, unless the node takes none.
func (n *Node) admit(s *shard, ctx context.Context, info transport.Info) (*Client, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.running || n.closing.Load() {
		return nil, protocol.DisconnectShutdown
	}
	n.clients.Add(1)
	return &Client{
		shard: s, opening: &opening{ctx, info.Header}, id: clientid.New(), remoteAddr: info.RemoteAddr,
	}, nil
}

func (n *Node) kind(info *transport.Info) *via.Kind {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.kinds.Of(info)
}

// begin makes the session, on its loop.
func (c *Client) begin(conn transport.Conn, kind *via.Kind) {
	c.shard.link(c)
	c.session.Init((*env)(c), c.node().session, conn, kind)
}

// patience is how long a shutdown lets handlers do what clients sent before.
const patience = 5 * time.Second

// Shutdown ends the node: no client is taken any more, all are disconnected with
// 3001, and their handlers and transports are waited for. The context of handlers ends
// 5 s after the last connection, or with ctx. The broker is closed
// last. If ctx ends before all this is done, Shutdown returns the error of ctx and
// the rest goes on in the background; a further call waits for it again. It must
// not be called by a handler.
func (n *Node) Shutdown(ctx context.Context) error {
	n.mu.Lock()
	first := !n.shutdown
	n.shutdown = true
	n.closing.Store(true)
	running := n.running
	n.mu.Unlock()
	switch {
	case !running:
		return nil
	case first:
		context.AfterFunc(ctx, n.stop)
		go n.end(context.WithoutCancel(ctx))
	}
	select {
	case <-n.ended:
		return n.endErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end is the work of Shutdown.
func (n *Node) end(ctx context.Context) {
	defer close(n.ended)
	n.cluster.Leave(ctx)
	for _, s := range n.shards {
		s.loop.Post(loop.Func(func() { s.drain(s.connections) }))
	}
	n.clients.Wait()
	defer time.AfterFunc(patience, n.stop).Stop()
	defer n.stop()
	// What a lane ends with can start another effect, by way of the loop: an
	// attach of a client that has gone is undone.
	for range 3 {
		n.work.Wait()
		_ = n.onLoops(ctx, func(*shard) {}) // fails with ctx, which never ends
	}
	n.cluster.Close()
	n.pulse.End()
	n.positions.Close() // while the loops still take what it posts
	for _, s := range n.shards {
		s.loop.Close()
	}
	n.loops.Wait()
	n.engines.Close()
	n.endErr = n.broker.Close(ctx)
	_ = logging.Flush(n.log) // a log that is stuck is no failure of the node
}

func (n *Node) isRunning() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.running
}
