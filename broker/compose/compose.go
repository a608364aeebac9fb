// Package compose makes one broker, or one presence manager, of several engines: each channel belongs to one of them.
package compose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/channel"
)

// Selector returns the index of the engine that a channel belongs to. Any goroutine calls it, for every operation and
// event, so it must be fast. It must return the same index on every node, for as long as the channel is used. An index
// out of range stands for engine 0.
type Selector func(ch string) int

// NewBroker returns a broker that hands each channel's operations to the engine that selector names. engines must not be
// empty. The composition owns them: it runs and closes them. A single engine is returned as it is.
//
// The composition has the traits that all engines have. It reports the health of all, has the Control of engine 0, and
// takes batches and reads positions even if the engines do not. It has maps if one engine has maps; a map of a channel
// of another engine is protocol.ErrorNotAvailable. It has no metrics: each engine has its own.
func NewBroker(selector Selector, engines ...broker.Broker) broker.Broker {
	if len(engines) == 1 {
		return engines[0]
	}
	b := &composition{selector: selector, engines: engines, traits: describe(engines)}
	b.own = common(b.traits)
	b.own.Control = b.traits[0].Control
	b.own.Batch = b.publishBatch
	if haveMaps(b.traits) {
		b.own.Maps = maps{b}
	}
	// A local broker must read positions as Traits.Positions says; History does not do.
	inexact := func(t broker.Traits) bool { return t.Positions == nil }
	if !b.own.Local || !slices.ContainsFunc(b.traits, inexact) {
		b.own.Positions = b.positions
	}
	return b
}

type composition struct {
	selector Selector
	engines  []broker.Broker
	traits   []broker.Traits // of engines
	own      broker.Traits
}

func describe[E broker.Engine](engines []E) []broker.Traits {
	traits := make([]broker.Traits, len(engines))
	for i, e := range engines {
		traits[i] = e.Describe()
	}
	return traits
}

// common returns the traits that all engines have.
func common(engines []broker.Traits) broker.Traits {
	t := broker.Traits{Name: "compose", Local: true, History: true, Idempotency: true, Versions: true, Delta: true}
	for _, e := range engines {
		t.Local = t.Local && e.Local
		t.History, t.Idempotency = t.History && e.History, t.Idempotency && e.Idempotency
		t.Versions, t.Delta = t.Versions && e.Versions, t.Delta && e.Delta
	}
	t.Health = func() (parts []broker.Health) {
		for _, e := range engines {
			if e.Health != nil {
				parts = append(parts, e.Health()...)
			}
		}
		return parts
	}
	return t
}

func (c *composition) Describe() broker.Traits { return c.own }

func (s Selector) in(n int, ch string) int {
	if i := s(ch); i >= 0 && i < n {
		return i
	}
	return 0
}

func (c *composition) of(ch string) int               { return c.selector.in(len(c.engines), ch) }
func (c *composition) engine(ch string) broker.Broker { return c.engines[c.of(ch)] }

// Run closes the engines before the one that fails.
func (c *composition) Run(h broker.EventHandler) error {
	for i, e := range c.engines {
		if err := e.Run(&handler{EventHandler: h, broker: c, index: i}); err != nil {
			err = fmt.Errorf("engine %d: %w", i, err)
			for _, running := range c.engines[:i] {
				err = errors.Join(err, running.Close(context.Background()))
			}
			return err
		}
	}
	return nil
}

type handler struct {
	broker.EventHandler
	broker *composition
	index  int
}

func (h *handler) HandleLoss(match func(ch string) bool) {
	h.EventHandler.HandleLoss(func(ch string) bool { return h.broker.of(ch) == h.index && match(ch) })
}

// Subscribe may fail with channels of some engines subscribed.
func (c *composition) Subscribe(ctx context.Context, channels ...string) error {
	return c.eachGroup(channels, func(e broker.Broker, channels []string) error {
		return e.Subscribe(ctx, channels...)
	})
}

func (c *composition) Unsubscribe(ctx context.Context, channels ...string) error {
	return c.eachGroup(channels, func(e broker.Broker, channels []string) error {
		return e.Unsubscribe(ctx, channels...)
	})
}

func (c *composition) eachGroup(channels []string, do func(broker.Broker, []string) error) error {
	if len(channels) == 1 {
		return do(c.engine(channels[0]), channels)
	}
	errs := make([]error, len(c.engines))
	c.split(len(channels), func(i int) string { return channels[i] }, func(engine int, at []int) {
		errs[engine] = do(c.engines[engine], pick(channels, at))
	})
	return errors.Join(errs...)
}

// split calls do for each engine that has some of n channels, at once. at are the places of its channels, or nil if it
// has all.
func (c *composition) split(n int, ch func(i int) string, do func(engine int, at []int)) {
	if only, ok := c.only(n, ch); ok {
		do(only, nil)
		return
	}
	parts := make([][]int, len(c.engines))
	for i := range n {
		engine := c.of(ch(i))
		parts[engine] = append(parts[engine], i)
	}
	var wg sync.WaitGroup
	for engine, at := range parts {
		if len(at) > 0 {
			wg.Go(func() { do(engine, at) })
		}
	}
	wg.Wait()
}

// only returns the engine to which all channels belong.
func (c *composition) only(n int, ch func(i int) string) (index int, ok bool) {
	if n == 0 {
		return 0, true
	}
	index = c.of(ch(0))
	for i := 1; i < n; i++ {
		if c.of(ch(i)) != index {
			return 0, false
		}
	}
	return index, true
}

// pick returns the elements at some places; nil stands for all.
func pick[T any](list []T, at []int) []T {
	if at == nil {
		return list
	}
	picked := make([]T, len(at))
	for k, i := range at {
		picked[k] = list[i]
	}
	return picked
}

func (c *composition) Publish(ctx context.Context, ch string, pub *channel.Publication, opts broker.PublishOptions) (broker.PublishResult, error) {
	return c.engine(ch).Publish(ctx, ch, pub, opts)
}

func (c *composition) PublishJoin(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return c.engine(ch).PublishJoin(ctx, ch, info)
}

func (c *composition) PublishLeave(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return c.engine(ch).PublishLeave(ctx, ch, info)
}

func (c *composition) History(ctx context.Context, ch string, filter broker.HistoryFilter) (broker.History, error) {
	return c.engine(ch).History(ctx, ch, filter)
}

func (c *composition) RemoveHistory(ctx context.Context, ch string) error {
	return c.engine(ch).RemoveHistory(ctx, ch)
}

// Close closes all engines at once, so that each has the whole time of ctx.
func (c *composition) Close(ctx context.Context) error {
	return enginekit.AtOnce(c.engines, func(e broker.Broker) error { return e.Close(ctx) })
}
