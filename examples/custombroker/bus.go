package main

import (
	"context"
	"errors"
	"sync"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/channel"
)

// Bus connects the brokers of several nodes of one process, as Redis or NATS
// connect those of many. A memory broker behind it keeps the streams and sees to
// offsets, idempotency and versions; the bus hands its events to the nodes that
// subscribed.
type Bus struct {
	streams *memory.Broker

	mu       sync.RWMutex
	channels map[string]map[*Broker]bool
}

// NewBus returns a bus that runs.
func NewBus() (*Bus, error) {
	b := &Bus{streams: memory.New(memory.Config{}), channels: make(map[string]map[*Broker]bool)}
	return b, b.streams.Run((*events)(b))
}

// Close frees the bus, after its brokers were closed.
func (b *Bus) Close(ctx context.Context) error { return b.streams.Close(ctx) }

// Broker returns a broker for one more node.
func (b *Bus) Broker() *Broker {
	return &Broker{
		Broker: b.streams, bus: b,
		queue: make(chan func(broker.EventHandler), queueSize), closed: make(chan struct{}),
	}
}

// events takes what the memory broker delivers, channel by channel in order.
type events Bus

func (e *events) HandlePublication(ch string, p broker.PublicationEvent) {
	e.send(ch, func(h broker.EventHandler) { h.HandlePublication(ch, p) })
}

func (e *events) HandleJoin(ch string, info *channel.ClientInfo) {
	e.send(ch, func(h broker.EventHandler) { h.HandleJoin(ch, info) })
}

func (e *events) HandleLeave(ch string, info *channel.ClientInfo) {
	e.send(ch, func(h broker.EventHandler) { h.HandleLeave(ch, info) })
}

// HandleLoss is never called: the memory broker loses nothing.
func (e *events) HandleLoss(func(ch string) bool) {}

func (e *events) send(ch string, event func(broker.EventHandler)) {
	e.mu.RLock()
	nodes := make([]*Broker, 0, len(e.channels[ch]))
	for n := range e.channels[ch] {
		nodes = append(nodes, n)
	}
	e.mu.RUnlock()
	for _, n := range nodes {
		select {
		case n.queue <- event: // waits for a node that is behind
		case <-n.closed:
		}
	}
}

// queueSize is how many events may wait for a node before publishers wait too.
const queueSize = 256

var (
	errRunTwice = errors.New("bus: broker was run or closed already")
	errClosed   = errors.New("bus: broker is closed")
)

// Broker is a node's end of a bus. What it does not do itself (joins, leaves and
// history) the embedded memory broker of the bus does.
type Broker struct {
	broker.Broker
	bus    *Bus
	queue  chan func(broker.EventHandler)
	closed chan struct{}

	mu      sync.Mutex
	running bool
	ended   bool
	worker  sync.WaitGroup
}

// Run implements broker.Broker.
func (b *Broker) Run(h broker.EventHandler) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running || b.ended {
		return errRunTwice
	}
	b.running = true
	b.worker.Go(func() { b.deliver(h) })
	return nil
}

// deliver calls the node, one event after the other.
func (b *Broker) deliver(h broker.EventHandler) {
	for {
		select {
		case event := <-b.queue:
			event(h)
		case <-b.closed:
			return
		}
	}
}

// Publish implements broker.Broker.
func (b *Broker) Publish(ctx context.Context, ch string, pub *channel.Publication, opts broker.PublishOptions) (broker.PublishResult, error) {
	select {
	case <-b.closed:
		return broker.PublishResult{}, errClosed
	default:
		return b.Broker.Publish(ctx, ch, pub, opts)
	}
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

// Unsubscribe implements broker.Broker. The bus unsubscribes after the last node.
func (b *Broker) Unsubscribe(ctx context.Context, channels ...string) error {
	b.bus.mu.Lock()
	defer b.bus.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, ch := range channels {
		delete(b.bus.channels[ch], b)
		if len(b.bus.channels[ch]) > 0 {
			continue
		}
		delete(b.bus.channels, ch)
		if err := b.Broker.Unsubscribe(ctx, ch); err != nil {
			return err
		}
	}
	return nil
}

// Close implements broker.Broker: the bus and the other nodes live on.
func (b *Broker) Close(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return nil
	}
	b.ended = true
	close(b.closed)
	b.worker.Wait()
	return b.leave()
}

// leave ends all subscriptions.
func (b *Broker) leave() error {
	b.bus.mu.RLock()
	var mine []string
	for ch, nodes := range b.bus.channels {
		if nodes[b] {
			mine = append(mine, ch)
		}
	}
	b.bus.mu.RUnlock()
	return b.Unsubscribe(context.Background(), mine...)
}
