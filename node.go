// Package gyro is a real-time messaging library: clients keep a connection,
// subscribe to channels, send messages and call RPCs; the program publishes. It
// speaks the Centrifugal client protocol v2.
package gyro

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/internal/beat"
	"github.com/gyrohq/gyro/internal/client"
	"github.com/gyrohq/gyro/internal/clocks"
	"github.com/gyrohq/gyro/internal/cluster"
	"github.com/gyrohq/gyro/internal/engines"
	"github.com/gyrohq/gyro/internal/flightrecorder"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/nodeaccess"
	"github.com/gyrohq/gyro/internal/operations"
	"github.com/gyrohq/gyro/internal/position"
	"github.com/gyrohq/gyro/internal/procstat"
	"github.com/gyrohq/gyro/internal/sharedpoll"
	"github.com/gyrohq/gyro/internal/validate"
	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/transport"
)

// Node serves the clients of one process, and is a member of the cluster if there is one.
// All methods may be called from any goroutine.
type Node struct {
	loops
	cfg       Config
	uid       string
	clients   *client.Registry
	engines   *engines.Engines
	rules     *validate.Rules
	maps      broker.Maps
	health    []func() []Health // of the engines
	positions *position.Checker
	fanout    *engines.Fanout
	polls     *sharedpoll.Polls
	pulse     *loop.Pulse
	cluster   *cluster.Cluster
	member    *operations.Member

	mu       sync.Mutex
	shutdown bool
	// ended is closed when a shutdown is complete; endErr is its outcome.
	ended  chan struct{}
	endErr error
}

// loops is embedded in Node so that transports of this module find the node's loops.
type loops = nodeaccess.Source

// New returns a node, which takes clients after Run. The error names the fields of cfg
// that are wrong.
func New(cfg Config) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	cfg.Handlers = cfg.Handlers.intercepted(cfg.Interceptors, cfg.Logger)
	n := &Node{cfg: cfg, uid: uuid.NewString(), ended: make(chan struct{})}
	n.health = engines.Healths(cfg.Broker, cfg.Presence, cfg.Controller)
	n.engines = engines.New(cfg.Broker, cfg.Presence, cfg.EngineConcurrency, engines.NewMeter(&cfg.Observer), cfg.Logger)
	settings := cfg.session()
	settings.NodeID, settings.Clocks, settings.Beat = n.uid, clocks.New(n.uid), beat.Of(n.uid)
	n.rules = &validate.Rules{Channel: cfg.Channel, Binary: cfg.Binary, Tracked: n.engines.Routes.IsMarked, Clocks: settings.Clocks, Log: cfg.Logger}
	n.engines.MetaTTL, n.maps = n.rules.MetaTTL, n.rules.Maps(n.engines.Maps)
	recorder := flightrecorder.New(cfg.FlightRecorder, runtime.GOMAXPROCS(0))
	n.clients = client.New(client.Config{
		Session: settings, Engines: n.engines, Application: (*application)(n), Observer: cfg.Observer, Log: cfg.Logger, Flight: recorder,
		Concurrency: cfg.Concurrency, InlineHandlers: cfg.InlineHandlers, GoroutineDriver: cfg.GoroutineDriver,
		UserConnectionLimit: cfg.UserConnectionLimit,
	})
	if cfg.Handlers.CacheEmpty != nil {
		n.engines.Fill = engines.NewFiller(n.fill, cfg.InlineHandlers)
	}
	n.loops = nodeaccess.Lead(n.clients)
	loops := n.clients.Loops()
	n.polls = &sharedpoll.Polls{Broker: n.engines.Broker, Table: sharedpoll.New(sharedpoll.Config{
		Loops: len(loops), Post: func(loop int, m *hub.Message) { loops[loop].PostMessage(m) }, Check: n.rules.Keyed,
		Concurrency: cfg.PollConcurrency, Polled: cfg.Observer.Polled, Panicked: n.clients.Panicked, Log: cfg.Logger,
	})}
	n.clients.SetPolls(n.polls.Table)
	n.fanout = &engines.Fanout{Routes: n.engines.Routes, Loops: loops, Taps: settings.Taps, Keyed: n.polls.Take}
	n.positions = position.New(position.Config{
		Broker: n.engines.Broker, Routes: n.engines.Routes, Rounds: settings.Rounds, Post: n.fanout.Post,
		Delay: cfg.PositionCheckDelay, Log: cfg.Logger,
	})
	n.engines.Watch, n.engines.Fragile = n.positions.Watch, n.positions.Fragile
	n.fanout.Lost = func(match func(ch string) bool) { recorder.Node().Lost(); n.positions.Lost(match) }
	process := procstat.New()
	n.pulse = loop.NewPulse(loops, recorder.Node().Watch(n.Health), process.Tick)
	n.member = &operations.Member{
		UID: n.uid, Name: cmp.Or(cfg.Name, n.uid), Version: cfg.Version, Started: time.Now(),
		Clients: n.clients, Routes: n.engines.Routes, Survey: n.answer, Process: process.Process,
		Inspector: &operations.Inspector{Node: n.uid, Clients: n.clients, Recorder: recorder, Nodes: n.Cluster().Nodes, Expressions: cfg.Expressions},
	}
	cfg.Controller = engines.MeterController(cmp.Or(cfg.Controller, n.engines.Traits.Control), engines.NewMeter(&cfg.Observer))
	n.cluster = cluster.New(cluster.Config{UID: n.uid, Controller: cfg.Controller, Handler: n.member, Clocks: settings.Clocks, Logger: cfg.Logger})
	n.member.Inspector.Survey = n.cluster.Survey
	return n, nil
}

// Run starts the node, joins the cluster if there is a controller, and returns. It must be
// called once. If other nodes cannot be reached yet, it logs that and returns no error.
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
	if open, _ := n.clients.State(); open || n.shutdown {
		return errors.New("gyro: node was started already")
	}
	if err := n.cluster.Listen(); err != nil {
		return err
	}
	if err := n.engines.Broker.Run(n.fanout); err != nil {
		return err
	}
	n.clients.Open()
	n.pulse.Begin()
	return nil
}

// UID of the node: a random UUID.
func (n *Node) UID() string { return n.uid }

// Accept takes a connection from a transport. It implements transport.Acceptor.
func (n *Node) Accept(ctx context.Context, conn transport.Conn, info transport.Info) (transport.Peer, error) {
	return n.clients.Accept(ctx, conn, info)
}

// Drain refuses new clients and disconnects the present ones with 3001 "shutdown", spread
// evenly over a time. Clients then connect again, and the other nodes are not overrun. With
// few clients it takes less time: it disconnects at least some 160 per second. In all other
// respects the node works as before, until Shutdown.
//
// Drain returns when no client is left, after the time over at the latest (at once if over
// is not positive), or earlier with the error of ctx when ctx ends. It may be called more
// than once, and while Shutdown is under way: the fastest drain counts.
func (n *Node) Drain(ctx context.Context, over time.Duration) error {
	return n.clients.Drain(ctx, over)
}

// Shutdown ends the node: it refuses new clients, disconnects all others with 3001, waits for their handlers and
// transports, and closes the broker last. The context of handlers ends 5 s after the last connection, or with ctx. The
// context of Unsubscribed and Disconnected has at least 5 s more. If ctx ends before all this is done, Shutdown returns
// the error of ctx and the rest goes on in the background; a further call waits for it again. A handler must not call
// Shutdown.
func (n *Node) Shutdown(ctx context.Context) error {
	n.mu.Lock()
	first := !n.shutdown
	n.shutdown = true
	n.clients.Refuse()
	running, _ := n.clients.State()
	n.mu.Unlock()
	switch {
	case !running:
		return nil
	case first:
		context.AfterFunc(ctx, n.clients.Stop)
		go n.end(context.WithoutCancel(ctx))
	}
	select {
	case <-n.ended:
		return n.endErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end does the work of Shutdown.
func (n *Node) end(ctx context.Context) {
	defer close(n.ended)
	n.cluster.Leave(ctx)
	n.clients.End(ctx)
	n.cluster.Close()
	n.pulse.End()
	n.positions.Close() // before the loops, because it posts to them
	n.polls.Close()     // likewise
	n.clients.Close()
	n.engines.Close()
	n.endErr = n.engines.Broker.Close(ctx)
	_ = logging.Flush(n.cfg.Logger) // a log handler that blocks is no failure of the node
}
