package client

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/internal/attach"
	"github.com/gyrohq/gyro/internal/clientid"
	"github.com/gyrohq/gyro/internal/counting"
	"github.com/gyrohq/gyro/internal/drain"
	"github.com/gyrohq/gyro/internal/lane"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/poll"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/internal/users"
	"github.com/gyrohq/gyro/internal/via"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// Config of a Registry.
type Config struct {
	Session     *session.Config
	Engines     *attach.Engines
	Application Application
	Observer    observe.Observer
	Log         *slog.Logger
	// Concurrency, InlineHandlers, GoroutineDriver and UserConnectionLimit are those of
	// gyro.Config.
	Concurrency         int
	InlineHandlers      bool
	GoroutineDriver     bool
	UserConnectionLimit int
}

// Registry is the clients of a node, on its loops. Any goroutine may use it.
type Registry struct {
	Config
	loops  []*Loop
	users  users.Counts
	panics atomic.Uint64

	// handling is the context of handlers, which Stop ends.
	handling context.Context
	Stop     context.CancelFunc

	accepted atomic.Uint32 // connections, modulo 2^32
	// connections are those that transports hold, running the loops that run, workers
	// the lanes at work.
	connections, running sync.WaitGroup
	workers              lane.Tally

	mu    sync.Mutex
	open  bool
	kinds via.Kinds
	// refusing is set when no client is taken any more; under mu.
	refusing atomic.Bool
}

// New returns a registry with a loop per processor. Clients are taken after Open.
func New(cfg Config) *Registry {
	r := &Registry{Config: cfg}
	r.handling, r.Stop = context.WithCancel(context.Background())
	for i := range runtime.GOMAXPROCS(0) {
		l := &Loop{Loop: loop.New(), clients: r, index: i, users: make(map[string][]*Client)}
		l.lanes = lane.Group{Loop: l.Loop, Concurrency: cfg.Concurrency, Workers: &r.workers}
		l.OnPanic = l.panicked
		if turn := cfg.Observer.Turn; turn != nil {
			l.counts = counting.New(turn, func(reason any, stack []byte) { r.panicked("", reason, stack) })
			l.OnTurn = func() { l.counts.End(l.Hub().Delivered(), l.Pool().Written()) }
		}
		r.loops = append(r.loops, l)
	}
	return r
}

// Loops of the node.
func (r *Registry) Loops() []*loop.Loop {
	loops := make([]*loop.Loop, len(r.loops))
	for i, l := range r.loops {
		loops[i] = l.Loop
	}
	return loops
}

// Open starts the loops, and takes clients from now on. It is called once.
func (r *Registry) Open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = true
	for _, l := range r.loops {
		r.running.Go(l.Run)
	}
}

// State tells whether Open was called, and Refuse.
func (r *Registry) State() (open, refusing bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open, r.refusing.Load()
}

// Refuse takes no client any more.
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
		if c.begin(conn, kind, info.Connect); r.refusing.Load() {
			// The others were disconnected before this one was there.
			c.session.Dismiss(protocol.DisconnectShutdown)
		}
	})
	return c.peer(), nil
}

// NextLoop returns a loop for AcceptOn; nil if there is none.
func (r *Registry) NextLoop() transport.Loop {
	if open, refusing := r.State(); r.GoroutineDriver || !poll.Supported() || !open || refusing {
		return nil
	}
	return r.nextLoop().Sockets()
}

// AcceptOn takes a connection whose socket is watched by l, one of NextLoop, on which
// it is called.
func (r *Registry) AcceptOn(l transport.Loop, ctx context.Context, conn transport.Conn, info transport.Info) (transport.Peer, error) {
	i := slices.IndexFunc(r.loops, func(own *Loop) bool { return own.Sockets() == l })
	c, kind, err := r.admit(r.loops[i], ctx, &info)
	if err != nil {
		return nil, err
	}
	c.begin(conn, kind, info.Connect)
	return (*direct)(c), nil
}

func (r *Registry) nextLoop() *Loop { return r.loops[int(r.accepted.Add(1))%len(r.loops)] }

// admit makes the client of a new connection, unless the node takes none.
func (r *Registry) admit(l *Loop, ctx context.Context, info *transport.Info) (*Client, *via.Kind, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open || r.refusing.Load() {
		return nil, nil, protocol.DisconnectShutdown
	}
	r.connections.Add(1)
	c := &Client{loop: l, request: &request{ctx, info.Header}, id: clientid.New(), remoteAddr: info.RemoteAddr}
	return c, r.kinds.Of(info), nil
}

// begin makes the session, on its loop. A one-way client connects at once if it has sent
// req already.
func (c *Client) begin(conn transport.Conn, kind *via.Kind, req *protocol.ConnectRequest) {
	c.loop.addConnection(c)
	c.session.Init((*env)(c), c.loop.clients.Session, conn, kind)
	if n := c.loop.counts; n != nil {
		n.Accepted(kind)
	}
	if req != nil && kind.Mode == transport.OneWay {
		c.contained(func() { c.session.Connect(req) })
	}
}

// OnLoops calls f on every loop and waits until all are done. A node that does not run
// has no clients, and nothing to call f for.
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

// Each calls f, on their loops, with the clients that t selects, and waits for it.
func (r *Registry) Each(ctx context.Context, t *users.Target, f func(*Client)) error {
	return r.OnLoops(ctx, func(l *Loop) { l.each(t, f) })
}

// PostEach calls f, on their loops, with the clients that t selects, later.
func (r *Registry) PostEach(t *users.Target, f func(*Client)) {
	for _, l := range r.loops {
		l.Post(loop.Func(func() { l.each(t, f) }))
	}
}

// Totals returns the numbers of authenticated connections and of their distinct users.
func (r *Registry) Totals() (clients, users int) { return r.users.Totals() }

// Subscriptions returns the number of subscriptions.
func (r *Registry) Subscriptions(ctx context.Context) (int, error) {
	var n atomic.Int64
	err := r.OnLoops(ctx, func(l *Loop) { n.Add(int64(l.Hub().Subscribers())) })
	return int(n.Load()), err
}

// Channels returns the channels with subscribers whose names match, and the number of
// these.
func (r *Registry) Channels(ctx context.Context, match func(string) bool) (map[string]int, error) {
	parts := make([]map[string]int, len(r.loops))
	err := r.OnLoops(ctx, func(l *Loop) {
		m := make(map[string]int)
		l.Hub().Channels(func(ch string, subscribers int) { m[ch] = subscribers })
		parts[l.index] = m
	})
	if err != nil {
		return nil, err
	}
	channels := make(map[string]int)
	for _, m := range parts {
		maps.DeleteFunc(m, func(ch string, _ int) bool { return !match(ch) })
		for ch, k := range m {
			channels[ch] += k
		}
	}
	return channels, nil
}

// Panics is how many panics were contained.
func (r *Registry) Panics() uint64 { return r.panics.Load() }

// panicked logs a panic, and counts it.
func (r *Registry) panicked(client string, reason any, stack []byte) {
	r.panics.Add(1)
	r.Log.Error("panic", "client", client, "panic", fmt.Sprint(reason), "stack", string(stack))
}

// Drain refuses new clients and disconnects those that are there, spread over a time.
func (r *Registry) Drain(ctx context.Context, over time.Duration) error {
	r.Refuse()
	return drain.Run(ctx, over, len(r.loops), func(portion drain.Portion) (int, error) {
		var left atomic.Int64
		err := r.OnLoops(ctx, func(l *Loop) {
			l.drain(portion(l.index, l.connections))
			left.Add(int64(l.connections))
		})
		return int(left.Load()), err
	})
}

// patience is how long an end lets handlers do what clients sent before.
const patience = 5 * time.Second

// End disconnects all clients, after Refuse, and waits for their transports and for
// their effects. The context of handlers ends 5 s after the last connection, or with
// Stop.
func (r *Registry) End(ctx context.Context) {
	for _, l := range r.loops {
		l.Post(loop.Func(func() { l.drain(l.connections) }))
	}
	r.connections.Wait()
	defer time.AfterFunc(patience, r.Stop).Stop()
	defer r.Stop()
	// What a lane ends with can start another effect, by way of the loop: an
	// attach of a client that has gone is undone.
	for range 3 {
		r.workers.Wait()
		_ = r.OnLoops(ctx, func(*Loop) {}) // fails with ctx, which never ends
	}
}

// Close ends the loops.
func (r *Registry) Close() {
	for _, l := range r.loops {
		l.Close()
	}
	r.running.Wait()
}
