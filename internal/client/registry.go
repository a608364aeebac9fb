package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/internal/clientmetrics"
	"github.com/gyrohq/gyro/internal/connkind"
	"github.com/gyrohq/gyro/internal/engines"
	"github.com/gyrohq/gyro/internal/flightrecorder"
	"github.com/gyrohq/gyro/internal/guard"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/nodeaccess"
	"github.com/gyrohq/gyro/internal/poll"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/internal/sharedpoll"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// Config of a Registry.
type Config struct {
	Loops       []*loop.Loop
	Session     *session.Config
	Engines     *engines.Engines
	Polls       *sharedpoll.Table
	Application Application
	Observer    observe.Observer
	Flight      *flightrecorder.Recorder // nil: nothing is recorded
	Log         *slog.Logger
	// Concurrency, InlineHandlers, GoroutineDriver and UserConnectionLimit as in gyro.Config.
	Concurrency         int
	InlineHandlers      bool
	GoroutineDriver     bool
	UserConnectionLimit int
}

// Registry has the clients of a node and its loops. Any goroutine may use it.
type Registry struct {
	Config
	// unreadable bounds the reports of payloads that are not JSON.
	unreadable guard.PerMinute
	loops      []*Loop
	users      userCounts
	panics     atomic.Uint64

	// handling is the context of handlers until Stop, parting of Unsubscribed and Disconnected until endParting.
	handling, parting context.Context
	stop, endParting  context.CancelFunc

	accepted atomic.Uint32 // connections, modulo 2^32
	reported atomic.Uint32 // refusals of transports, likewise
	// connections of transports, running loops, and workers of work queues.
	connections, running sync.WaitGroup
	workers              tally

	mu             sync.Mutex // serialises admit, Open and Refuse
	kinds          connkind.Kinds
	open, refusing atomic.Bool
}

// New returns a registry, which takes clients after Open.
func New(cfg Config) *Registry {
	r := &Registry{Config: cfg}
	r.handling, r.stop = context.WithCancel(context.Background())
	r.parting, r.endParting = context.WithCancel(context.Background())
	for i, own := range cfg.Loops {
		l := &Loop{Loop: own, clients: r, Index: i, users: make(map[string][]*Client), ring: cfg.Flight.Loop(i)}
		l.scratch.Polls = sharedpoll.Loop{Hub: l.Hub(), Index: i, Table: cfg.Polls}
		l.refusals = r.recorder(l.ring)
		l.work = workGroup{Loop: l.Loop, Concurrency: cfg.Concurrency, Workers: &r.workers}
		l.OnPanic = l.panicked
		if cfg.Observer.Turn != nil {
			l.counts = clientmetrics.New(&r.Observer, l, r.Panicked)
			l.Hub().Counter = l.counts
			l.OnTurn = func() { l.counts.End(l.Hub().Delivered(), l.Pool().Written()) }
		}
		r.loops = append(r.loops, l)
	}
	return r
}

// Open starts the loops and takes clients from now on. It is called once.
func (r *Registry) Open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.loops {
		r.running.Go(l.Run)
	}
	r.open.Store(true)
}

// State reports whether Open and Refuse were called.
func (r *Registry) State() (open, refusing bool) { return r.open.Load(), r.refusing.Load() }

// Closed is why the registry takes no clients; nil if it does.
func (r *Registry) Closed() error {
	switch open, refusing := r.State(); {
	case refusing:
		return errShuttingDown
	case !open:
		return errNotRunning
	}
	return nil
}

var (
	errNotRunning   = errors.New("gyro: node does not run")
	errShuttingDown = errors.New("gyro: node is shutting down")
)

var _ nodeaccess.Node = (*Registry)(nil)

// Refuse refuses new clients from now on.
func (r *Registry) Refuse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusing.Store(true)
}

// Accept takes a connection from a transport with goroutines of its own.
func (r *Registry) Accept(ctx context.Context, conn transport.Conn, info transport.Info) (transport.Peer, error) {
	c, kind, err := r.admit(r.nextLoop(), ctx, &info)
	if err != nil {
		return nil, err
	}
	c.Post(func() {
		c.begin(conn, kind, info.Connect)
		if r.refusing.Load() {
			// The drain may have missed this client, which had no session yet.
			c.session.CloseAfterDelivery(protocol.DisconnectShutdown)
		}
	})
	return c.peer(), nil
}

// NextLoop returns a loop for AcceptOn; nil if connections cannot live on loops, or none are taken.
func (r *Registry) NextLoop() transport.Loop {
	if open, refusing := r.State(); r.GoroutineDriver || !poll.Supported() || !open || refusing {
		return nil
	}
	return r.nextLoop().Sockets()
}

// AcceptOn takes a connection whose socket l watches, on l, a result of NextLoop.
func (r *Registry) AcceptOn(l transport.Loop, ctx context.Context, conn transport.Conn, info transport.Info) (transport.Peer, error) {
	i := slices.IndexFunc(r.loops, func(own *Loop) bool { return own.Sockets() == l })
	c, kind, err := r.admit(r.loops[i], ctx, &info)
	if err != nil {
		return nil, err
	}
	c.begin(conn, kind, info.Connect)
	return (*loopPeer)(c), nil
}

func (r *Registry) nextLoop() *Loop { return r.loops[int(r.accepted.Add(1))%len(r.loops)] }

func (r *Registry) admit(l *Loop, ctx context.Context, info *transport.Info) (*Client, *connkind.Kind, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if open, refusing := r.State(); !open || refusing {
		return nil, nil, protocol.DisconnectShutdown
	}
	r.connections.Add(1)
	c := &Client{loop: l, request: &request{ctx, info.Header, info.Repeated}, id: newClientID(), remoteAddr: info.RemoteAddr}
	return c, r.kinds.Of(info), nil
}

// begin starts the session, on its loop. req is nil unless a one-way client has sent it already.
func (c *Client) begin(conn transport.Conn, kind *connkind.Kind, req *protocol.ConnectRequest) {
	c.loop.addConnection(c)
	c.session.Init((*env)(c), c.loop.clients.Session, conn, kind)
	c.loop.counts.Accepted(kind)
	if req != nil && kind.Mode == transport.OneWay {
		c.contained(func() { c.session.ReceiveConnect(req, nil) })
	}
}

// OnLoops calls f on every loop and waits. It does nothing before Open.
func (r *Registry) OnLoops(ctx context.Context, f func(*Loop)) error {
	if open, _ := r.State(); !open {
		return nil
	}
	done := make(chan struct{}, len(r.loops))
	for _, l := range r.loops {
		if !l.Post(loop.Func(func() {
			defer func() { done <- struct{}{} }() // also after a panic
			f(l)
		})) {
			done <- struct{}{}
		}
	}
	for range r.loops {
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Each calls f with the clients that t selects, on their loops, and waits.
func (r *Registry) Each(ctx context.Context, t *Target, f func(*Client)) error {
	return r.OnLoops(ctx, func(l *Loop) { l.each(t, f) })
}

// Select iterates over authenticated clients, all if t is nil. It asks one loop after the other, and calls yield
// elsewhere. It ends early with ctx.
func (r *Registry) Select(ctx context.Context, t *Target) iter.Seq[*Client] {
	return func(yield func(*Client) bool) {
		if open, _ := r.State(); !open {
			return
		}
		for _, l := range r.loops {
			var found []*Client
			if !l.call(ctx, func() { found = l.selected(t) }) {
				return
			}
			for _, c := range found {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// Subscribers counts the clients that are subscribed to a channel.
func (r *Registry) Subscribers(ctx context.Context, ch string) (int, error) {
	var n atomic.Int64
	err := r.OnLoops(ctx, func(l *Loop) { n.Add(int64(l.Hub().SubscribersOf(ch))) })
	return int(n.Load()), err
}

// PostEach is Each without waiting.
func (r *Registry) PostEach(t *Target, f func(*Client)) {
	for _, l := range r.loops {
		l.Post(loop.Func(func() { l.each(t, f) }))
	}
}

// Totals are the authenticated connections and their distinct users.
func (r *Registry) Totals() (clients, users int) { return r.users.Totals() }

// Subscriptions counts them.
func (r *Registry) Subscriptions(ctx context.Context) (int, error) {
	var n atomic.Int64
	err := r.OnLoops(ctx, func(l *Loop) { n.Add(int64(l.Hub().Subscribers())) })
	return int(n.Load()), err
}

// Channels returns the matching channels and their numbers of subscribers.
func (r *Registry) Channels(ctx context.Context, match func(string) bool) (map[string]int, error) {
	parts := make([]map[string]int, len(r.loops))
	err := r.OnLoops(ctx, func(l *Loop) {
		m := make(map[string]int)
		l.Hub().Channels(func(ch string, subscribers int) { m[ch] = subscribers })
		parts[l.Index] = m
	})
	if err != nil {
		return nil, err
	}
	channels := make(map[string]int)
	for _, m := range parts {
		for ch, subscribers := range m {
			if match(ch) {
				channels[ch] += subscribers
			}
		}
	}
	return channels, nil
}

// Load is Inspector.Load of the node.
func (r *Registry) Load(ctx context.Context) (observe.Load, error) {
	parts := make([]sendqueue.Waiting, len(r.loops))
	if err := r.OnLoops(ctx, func(l *Loop) { parts[l.Index] = l.Pool().Waiting() }); err != nil {
		return observe.Load{}, err
	}
	var w sendqueue.Waiting
	for _, p := range parts {
		w.Add(p)
	}
	return observe.Load{
		QueuedClients: w.Queues, QueuedBytes: w.Bytes, LargestQueue: w.Largest, OldestQueued: w.Oldest,
		ClockSkew: r.Session.Clocks.Ahead(),
	}, nil
}

// Panics counts them.
func (r *Registry) Panics() uint64 { return r.panics.Load() }

// Panicked logs and counts a panic that concerns no client.
func (r *Registry) Panicked(reason any, stack []byte) { r.panicked("", reason, stack) }

func (r *Registry) panicked(client string, reason any, stack []byte) {
	r.panics.Add(1)
	r.Log.Error("panic", "client", client, "panic", fmt.Sprint(reason), "stack", string(stack))
}

// Drain refuses new clients and disconnects the others, spread over a time.
func (r *Registry) Drain(ctx context.Context, over time.Duration) error {
	r.Refuse()
	return spreadEnds(ctx, over, len(r.loops), func(portion drainPortion) (int, error) {
		var left atomic.Int64
		err := r.OnLoops(ctx, func(l *Loop) {
			l.drain(portion(l.Index, l.connections))
			left.Add(int64(l.connections))
		})
		return int(left.Load()), err
	})
}

// patience is how long End lets handlers run after the last connection, and Unsubscribed and Disconnected longer.
const patience = 5 * time.Second

// Stop ends the context of handlers, and 5 s later the context of Unsubscribed and Disconnected.
func (r *Registry) Stop() {
	r.stop()
	time.AfterFunc(patience, r.endParting)
}

// End disconnects all clients and waits for transports and effects. The context of handlers ends 5 s after the last
// connection, or with Stop. Refuse comes before.
func (r *Registry) End(ctx context.Context) {
	for _, l := range r.loops {
		l.Post(loop.Func(func() { l.drain(l.connections) }))
	}
	r.connections.Wait()
	defer time.AfterFunc(patience, r.Stop).Stop()
	defer func() { r.stop(); r.endParting() }()
	// The completion of a client's last effect can start another one: the attach of a client that has gone is undone.
	for range 3 {
		r.workers.Wait()
		_ = r.OnLoops(ctx, func(*Loop) {}) // cannot fail, because ctx never ends
	}
}

// Close ends the loops and the taps.
func (r *Registry) Close() {
	r.Session.Taps.Close()
	for _, l := range r.loops {
		l.Close()
	}
	r.running.Wait()
}
