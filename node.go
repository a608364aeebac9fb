// Package gyro is a real-time messaging library: clients keep a connection,
// subscribe to channels, send messages and call RPCs; the program publishes. It
// speaks the Centrifugal client protocol v2.
package gyro

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/internal/client"
	"github.com/gyrohq/gyro/internal/cluster"
	"github.com/gyrohq/gyro/internal/engines"
	"github.com/gyrohq/gyro/internal/flightrecorder"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/nodeaccess"
	"github.com/gyrohq/gyro/internal/operations"
	"github.com/gyrohq/gyro/internal/position"
	"github.com/gyrohq/gyro/internal/procstat"
	"github.com/gyrohq/gyro/internal/sharedpoll"
	"github.com/gyrohq/gyro/internal/validate"
	"github.com/gyrohq/gyro/transport"
)

// Node serves the clients of one process, and is a member of the cluster if there is one.
// All methods may be called from any goroutine.
type Node struct {
	loops
	cfg       Config
	uid       string
	rules     *validate.Rules
	engines   *engines.Engines
	maps      broker.Maps
	polls     *sharedpoll.Polls
	clients   *client.Registry
	fanout    *engines.Fanout
	positions *position.Checker
	pulse     *loop.Pulse
	member    *operations.Member
	cluster   *cluster.Cluster
	health    []func() []Health // of the engines
	parts     []part

	mu       sync.Mutex
	ran      bool // Run was called
	running  bool // Run has started the parts
	shutdown bool
	started  chan struct{} // closed when Run has started the parts, or failed
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
	n := &Node{cfg: cfg, uid: uuid.NewString(), started: make(chan struct{}), ended: make(chan struct{})}
	loops := make([]*loop.Loop, cfg.Loops)
	for i := range loops {
		loops[i] = loop.New()
	}
	recorder := flightrecorder.New(cfg.FlightRecorder, len(loops))
	settings := cfg.session(n.uid, recorder)
	process := procstat.New()
	n.rules = n.newRules(settings.Clocks)
	n.engines = n.newEngines()
	n.maps = n.rules.Maps(n.engines.Maps)
	n.polls = n.newPolls(loops)
	n.clients = n.newClients(loops, settings, recorder)
	n.loops = nodeaccess.Lead(n.clients)
	n.fanout = n.newFanout(loops, settings.Taps, recorder.Node())
	n.positions = position.New(position.Config{
		Broker: n.engines.Broker, Routes: n.engines.Routes, Rounds: settings.Rounds, Post: n.fanout.Post,
		Delay: cfg.PositionCheckDelay, Log: cfg.Logger,
	})
	n.pulse = loop.NewPulse(loops, recorder.Node().Watch(n.Health), process.Tick)
	n.member = n.newMember(recorder, process)
	n.cluster = n.newCluster(settings.Clocks)
	n.health = engines.Healths(cfg.Broker, cfg.Presence, cfg.Controller)
	n.parts = n.inOrder()
	return n, nil
}

// Run starts the node, joins the cluster if there is a controller, and returns. It must be
// called once. If other nodes cannot be reached yet, it logs that and returns no error.
// After an error, nothing is left running.
func (n *Node) Run() error {
	if err := n.start(); err != nil {
		return err
	}
	n.cluster.Start() // without the lock: it takes up to seconds, and Shutdown may come meanwhile
	return nil
}

// start holds no lock while an engine connects, so that Shutdown need not wait for it.
func (n *Node) start() error {
	n.mu.Lock()
	if n.ran || n.shutdown {
		n.mu.Unlock()
		return errors.New("gyro: node was started already")
	}
	n.ran = true
	n.mu.Unlock()
	defer close(n.started)
	err := startAll(n.parts)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running = err == nil
	return err
}

// UID of the node: a random UUID.
func (n *Node) UID() string { return n.uid }

// Accept takes a connection from a transport. It implements transport.Acceptor.
func (n *Node) Accept(ctx context.Context, conn transport.Conn, info transport.Info) (transport.Peer, error) {
	return n.clients.Accept(ctx, conn, info)
}

// Drain refuses new clients and disconnects the others with 3001 "shutdown", spread evenly over a time, so that the other
// nodes are not overrun; at least some 160 per second. In all other respects the node works as before.
//
// Drain returns when no client is left, after the time over at the latest (at once if over is not positive), or with
// the error of ctx. It may be called more than once, and during Shutdown: the fastest drain counts.
func (n *Node) Drain(ctx context.Context, over time.Duration) error {
	return n.clients.Drain(ctx, over)
}

// Shutdown refuses new clients, disconnects all others with 3001, waits for their handlers and transports, and closes the
// broker last. The context of handlers ends 5 s after the last connection, or with ctx; Unsubscribed and Disconnected
// have at least 5 s more. If ctx ends before, Shutdown returns its error and the rest goes on in the background; a
// further call waits for it again. A handler must not call Shutdown.
func (n *Node) Shutdown(ctx context.Context) error {
	n.mu.Lock()
	first := !n.shutdown
	n.shutdown = true
	n.clients.Refuse()
	ran := n.ran
	n.mu.Unlock()
	switch {
	case !ran:
		return nil
	case first:
		go n.end(ctx)
	}
	select {
	case <-n.ended:
		return n.endErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end waits for Run, and stops what it has started.
func (n *Node) end(ctx context.Context) {
	defer close(n.ended)
	<-n.started
	n.mu.Lock()
	running := n.running
	n.mu.Unlock()
	if running {
		context.AfterFunc(ctx, n.clients.Stop)
		n.endErr = stopAll(context.WithoutCancel(ctx), n.parts)
	}
}
