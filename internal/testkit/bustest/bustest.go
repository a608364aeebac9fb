// Package bustest is an engine for tests of several nodes in one process. It stands for Redis or NATS: it is not local.
// Messages arrive before the call that sends them returns.
package bustest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/channel"
)

// Bus connects the engines of nodes. A memory broker keeps their streams.
type Bus struct {
	streams *memory.Broker

	mu       sync.RWMutex
	engines  map[*Engine]bool
	channels map[string]map[*Engine]bool
}

// New returns a bus that is closed when the test ends.
func New(tb testing.TB) *Bus {
	b := &Bus{
		streams: memory.New(memory.Config{}),
		engines: make(map[*Engine]bool), channels: make(map[string]map[*Engine]bool),
	}
	if err := b.streams.Run((*events)(b)); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = b.streams.Close(context.Background()) })
	return b
}

// Engine returns the broker and controller of one more node.
func (b *Bus) Engine() *Engine { return &Engine{Broker: b.streams, bus: b} }

// Subscribed returns how many engines are subscribed to a channel.
func (b *Bus) Subscribed(ch string) int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.channels[ch])
}

type events Bus

func (e *events) each(ch string, f func(broker.EventHandler)) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for n := range e.channels[ch] {
		f(n.handler)
	}
}

func (e *events) HandlePublication(ch string, p broker.PublicationEvent) {
	e.each(ch, func(h broker.EventHandler) { h.HandlePublication(ch, p) })
}

func (e *events) HandleJoin(ch string, info *channel.ClientInfo) {
	e.each(ch, func(h broker.EventHandler) { h.HandleJoin(ch, info) })
}

func (e *events) HandleLeave(ch string, info *channel.ClientInfo) {
	e.each(ch, func(h broker.EventHandler) { h.HandleLeave(ch, info) })
}

func (e *events) HandleLoss(func(ch string) bool) {}

// Engine is a node's end of a bus. The embedded memory broker does the rest.
type Engine struct {
	broker.Broker
	bus     *Bus
	handler broker.EventHandler
	node    string
	receive func(data []byte)

	cut  atomic.Bool
	gone atomic.Bool
	fail atomic.Pointer[error]
	sent atomic.Int64
}

func (n *Engine) Describe() broker.Traits {
	return broker.Traits{Name: "bus", History: true, Idempotency: true, Versions: true, Delta: true, Control: n}
}

// Cut makes the engine lose all control messages, in and out, without an error, like a killed node.
func (n *Engine) Cut(cut bool) { n.cut.Store(cut) }

// Gone is Cut, and the other nodes are told that no process receives messages for the node.
func (n *Engine) Gone(gone bool) {
	n.gone.Store(gone)
	n.Cut(gone)
}

// Fail makes PublishControl fail with err, or succeed again with nil.
func (n *Engine) Fail(err error) { n.fail.Store(&err) }

func (n *Engine) Sent() int { return int(n.sent.Load()) }

func (n *Engine) RunControl(node string, handle func(data []byte)) error {
	if n.receive != nil {
		return errors.New("bustest: RunControl was called before")
	}
	n.node, n.receive = node, handle
	n.bus.mu.Lock()
	defer n.bus.mu.Unlock()
	n.bus.engines[n] = true
	return nil
}

func (n *Engine) PublishControl(ctx context.Context, node string, data []byte) error {
	n.sent.Add(1)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := n.fail.Load(); err != nil && *err != nil {
		return *err
	}
	if n.cut.Load() {
		return nil
	}
	n.bus.Inject(node, data)
	if n.bus.gone(node) {
		return broker.ErrNoReceiver
	}
	return nil
}

func (b *Bus) gone(node string) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for o := range b.engines {
		if node != "" && o.node == node && o.gone.Load() {
			return true
		}
	}
	return false
}

// Inject sends a control message as if a node had sent it.
func (b *Bus) Inject(node string, data []byte) {
	b.mu.RLock()
	var to []*Engine
	for o := range b.engines {
		if node == "" || node == o.node {
			to = append(to, o)
		}
	}
	b.mu.RUnlock()
	for _, o := range to {
		if o.cut.Load() {
			continue
		}
		msg := bytes.Clone(data)
		o.receive(msg)
		clear(msg) // it is valid during the call only
	}
}

func (n *Engine) Run(h broker.EventHandler) error {
	n.handler = h
	return nil
}

func (n *Engine) Subscribe(ctx context.Context, channels ...string) error {
	n.bus.mu.Lock()
	defer n.bus.mu.Unlock()
	for _, ch := range channels {
		if err := n.Broker.Subscribe(ctx, ch); err != nil {
			return err
		}
		if n.bus.channels[ch] == nil {
			n.bus.channels[ch] = make(map[*Engine]bool)
		}
		n.bus.channels[ch][n] = true
	}
	return nil
}

func (n *Engine) Unsubscribe(_ context.Context, channels ...string) error {
	n.bus.mu.Lock()
	defer n.bus.mu.Unlock()
	for _, ch := range channels {
		delete(n.bus.channels[ch], n)
	}
	return nil
}

// Close implements broker.Broker: the bus lives on.
func (n *Engine) Close(context.Context) error {
	n.bus.mu.Lock()
	defer n.bus.mu.Unlock()
	delete(n.bus.engines, n)
	for _, engines := range n.bus.channels {
		delete(engines, n)
	}
	return nil
}

var (
	_ broker.Broker     = (*Engine)(nil)
	_ broker.Controller = (*Engine)(nil)
)
