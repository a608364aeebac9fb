package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/channel"
)

// Bus connects the brokers of several nodes in one process, as Redis or NATS do across machines. A memory broker keeps
// the streams. The bus hands events to the nodes that subscribed, and control messages to the nodes that they are for.
type Bus struct {
	streams  *memory.Broker
	presence *memory.Presence

	mu       sync.RWMutex // held for reading while nodes are called
	channels map[string]map[*Broker]bool
	nodes    map[*Broker]bool // that take control messages
}

// NewBus returns a bus that runs.
func NewBus() (*Bus, error) {
	b := &Bus{
		streams: memory.New(memory.Config{}), presence: memory.NewPresence(memory.Config{}),
		channels: make(map[string]map[*Broker]bool), nodes: make(map[*Broker]bool),
	}
	return b, b.streams.Run((*events)(b))
}

// Close frees the bus, after its brokers were closed.
func (b *Bus) Close(ctx context.Context) error { return b.streams.Close(ctx) }

// Broker returns a broker for one more node.
func (b *Bus) Broker() *Broker { return &Broker{Broker: b.streams, bus: b} }

// Engine is the bus as one node sees it. It implements gyro.Engine.
type Engine struct{ broker *Broker }

// Engine returns an engine for one more node.
func (b *Bus) Engine() Engine { return Engine{b.Broker()} }

// Broker implements gyro.Engine. The traits of the broker have the presence manager and the
// controller.
func (e Engine) Broker() broker.Broker { return e.broker }

// events takes the events of the memory broker, in the order of each channel.
type events Bus

func (e *events) HandlePublication(ch string, p broker.PublicationEvent) {
	e.deliver(ch, func(h broker.EventHandler) { h.HandlePublication(ch, p) })
}

func (e *events) HandleJoin(ch string, info *channel.ClientInfo) {
	e.deliver(ch, func(h broker.EventHandler) { h.HandleJoin(ch, info) })
}

func (e *events) HandleLeave(ch string, info *channel.ClientInfo) {
	e.deliver(ch, func(h broker.EventHandler) { h.HandleLeave(ch, info) })
}

// HandleLoss is never called: the memory broker loses nothing.
func (e *events) HandleLoss(func(ch string) bool) {}

// deliver waits for nodes that are late.
func (e *events) deliver(ch string, event func(broker.EventHandler)) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for n := range e.channels[ch] {
		event(n.handler)
		n.delivered.Add(1)
	}
}

var (
	errRunTwice = errors.New("bus: broker was run or closed already")
	errClosed   = errors.New("bus: broker is closed")
)

// Broker is a node's end of a bus. The embedded memory broker does the rest: joins, leaves and history.
type Broker struct {
	broker.Broker
	bus       *Bus
	delivered atomic.Uint64 // events
	closed    atomic.Bool

	// under the lock of the bus
	handler broker.EventHandler // of Run
	node    string              // of RunControl, as is control
	control func(data []byte)
}

// Describe implements broker.Engine. It leaves out traits of the memory broker that do not know of the bus, such as
// Batch and Positions; a node does without them.
func (b *Broker) Describe() broker.Traits {
	return broker.Traits{
		Name:    "bus",
		History: true, Idempotency: true, Versions: true, Delta: true,
		Metrics: b.metrics, Presence: b.bus.presence, Control: b,
	}
}

// metrics are exported by the server as gyro_broker_bus_delivered_events_total.
func (b *Broker) metrics() []broker.Metric {
	return []broker.Metric{{
		Name: "delivered_events_total", Help: "Events that were handed to the node.", Counter: true, Value: float64(b.delivered.Load()),
	}}
}

// Run implements broker.Broker.
func (b *Broker) Run(h broker.EventHandler) error {
	b.bus.mu.Lock()
	defer b.bus.mu.Unlock()
	if b.handler != nil || b.closed.Load() {
		return errRunTwice
	}
	b.handler = h
	return nil
}

// RunControl implements broker.Controller.
func (b *Broker) RunControl(node string, handle func(data []byte)) error {
	b.bus.mu.Lock()
	defer b.bus.mu.Unlock()
	b.node, b.control = node, handle
	b.bus.nodes[b] = true
	return nil
}

// PublishControl implements broker.Controller.
func (b *Broker) PublishControl(ctx context.Context, node string, data []byte) error {
	if err := b.check(ctx); err != nil {
		return err
	}
	var handlers []func([]byte)
	b.bus.mu.RLock()
	for n := range b.bus.nodes {
		if node == "" || node == n.node {
			handlers = append(handlers, n.control)
		}
	}
	b.bus.mu.RUnlock()
	for _, handle := range handlers { // without the lock: they may publish control messages
		handle(data)
	}
	return nil
}

func (b *Broker) check(ctx context.Context) error {
	if b.closed.Load() {
		return errClosed
	}
	return ctx.Err()
}

// Publish implements broker.Broker.
func (b *Broker) Publish(ctx context.Context, ch string, pub *channel.Publication, opts broker.PublishOptions) (broker.PublishResult, error) {
	if err := b.check(ctx); err != nil {
		return broker.PublishResult{}, err
	}
	return b.Broker.Publish(ctx, ch, pub, opts)
}

// Subscribe implements broker.Broker. The bus subscribes for the first node.
func (b *Broker) Subscribe(ctx context.Context, channels ...string) error {
	b.bus.mu.Lock()
	defer b.bus.mu.Unlock()
	for _, ch := range channels {
		if err := b.Broker.Subscribe(ctx, ch); err != nil {
			return err
		}
		if b.bus.channels[ch] == nil {
			b.bus.channels[ch] = make(map[*Broker]bool)
		}
		b.bus.channels[ch][b] = true
	}
	return nil
}

// Unsubscribe implements broker.Broker.
func (b *Broker) Unsubscribe(ctx context.Context, channels ...string) error {
	b.bus.mu.Lock()
	defer b.bus.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, ch := range channels {
		if err := b.leave(ctx, ch); err != nil {
			return err
		}
	}
	return nil
}

// leave ends a subscription; the bus unsubscribes after the last node.
func (b *Broker) leave(ctx context.Context, ch string) error {
	nodes := b.bus.channels[ch]
	if delete(nodes, b); len(nodes) > 0 {
		return nil
	}
	delete(b.bus.channels, ch)
	return b.Broker.Unsubscribe(ctx, ch)
}

// Close implements broker.Broker. It does not close the bus, and waits for events on their way to this node.
func (b *Broker) Close(ctx context.Context) error {
	b.closed.Store(true)
	b.bus.mu.Lock()
	defer b.bus.mu.Unlock()
	delete(b.bus.nodes, b)
	var errs []error
	for ch, nodes := range b.bus.channels {
		if nodes[b] {
			errs = append(errs, b.leave(ctx, ch))
		}
	}
	return errors.Join(errs...)
}
