// Package engines is everything between a node and its engines. Calls go out through Engines: it establishes and ends
// subscriptions, limits the calls in progress at engines that are not local, lets identical reads share one, counts all
// calls, repeats failed removals of presence, and has the application fill empty streams. Events of a broker come in
// through Fanout.
package engines

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/guard"
	"github.com/gyrohq/gyro/internal/route"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
)

// Engines of a node, and its routes. The fields are constant once it is used.
type Engines struct {
	Broker broker.Broker
	Traits broker.Traits // of Broker
	// Streams is Broker for Subscribe and History, and Presence the presence manager, each behind a limit unless it is
	// local. Presence repeats failed removals.
	Streams  broker.Broker
	Presence broker.PresenceManager
	// Maps of Broker, likewise; nil if it has none.
	Maps   broker.Maps
	Routes *route.Table
	// Watch starts the checks of positions in a channel.
	Watch func(ch string, metaTTL time.Duration)
	// Fragile makes subscribers of a channel without a stream hear of losses.
	Fragile func(ch string)
	// MetaTTL is for reads of a channel's stream that name none.
	MetaTTL func(ch string) time.Duration
	// Fill asks the application to fill empty streams; nil if it fills none.
	Fill *Filler
	// Local is set if no engine makes callers wait: see broker.Traits.
	Local    bool
	presence *presenceManager // nil if the presence manager is local
	meter    *Meter           // may be nil
}

// New limits the calls at each engine that is not local to concurrency. meter may be nil.
func New(b broker.Broker, p broker.PresenceManager, concurrency int, meter *Meter, log *slog.Logger) *Engines {
	g := &Engines{Broker: b, Traits: b.Describe(), Streams: b, Presence: p, meter: meter}
	localPresence := p.Describe().Local
	g.Local = g.Traits.Local && localPresence
	g.Maps = g.Traits.Maps
	if !g.Traits.Local {
		limited := limitBroker(b, concurrency)
		g.Streams, g.Maps = limited, limited.Maps(g.Maps)
	}
	if !localPresence {
		g.presence = newPresenceManager(limitPresence(p, concurrency), log)
		g.Presence = g.presence
	}
	if meter != nil {
		g.Broker, g.Streams = meterBroker(b, meter), meterStreams(g.Streams, meter)
		g.Presence, g.Traits = meterPresence(g.Presence, meter), g.Broker.Describe()
		g.Maps = meterMaps(g.Maps, meter)
	}
	g.Routes = route.New(g.Streams)
	return g
}

// Close ends the background work. It tries failed removals of presence for 2 s at most. No method may be called after
// it.
func (g *Engines) Close() {
	if g.Fill != nil {
		g.Fill.Close()
	}
	if g.presence != nil {
		g.presence.Close()
	}
	g.Routes.Close()
}

// Owner of subscriptions: a client.
type Owner interface {
	ID() string
	Loop() int
	// Failed logs an error of an engine.
	Failed(what, ch string, err error)
	// Panicked logs a panic of an engine.
	Panicked(reason any, stack []byte)
}

// atOnce is how many subscriptions of a client are established at a time at engines that are not local.
const atOnce = 16

// Instant reports whether Attach can be inline: neither an engine nor the application makes it wait.
func (g *Engines) Instant(ctx context.Context, items []*effect.AttachItem) bool {
	return g.Local && !(g.Fill != nil && slices.ContainsFunc(items, func(it *effect.AttachItem) bool { return g.asks(ctx, it) }))
}

func (g *Engines) asks(ctx context.Context, it *effect.AttachItem) bool {
	if it.Latest == nil {
		return false
	}
	if _, err := g.Fill.Inline(it.Channel); err == nil {
		return false
	}
	f := it.HistoryFilter
	f.MetaTTL = g.metaTTL(it.Channel, f.MetaTTL)
	h, err := g.Streams.History(ctx, it.Channel, f)
	return err == nil && it.Lacks(h)
}

// Attach establishes subscriptions, and sets their results and errors. With inline, it does not wait for the
// application.
func (g *Engines) Attach(ctx context.Context, o Owner, items []*effect.AttachItem, inline bool) {
	if len(items) == 1 || inline || g.Local && g.Fill == nil {
		for _, it := range items {
			g.attach(ctx, o, it, inline)
		}
		return
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, it := range items {
		slots <- struct{}{}
		wg.Go(func() {
			g.attach(ctx, o, it, false)
			<-slots
		})
	}
	wg.Wait()
}

var errPanic = errors.New("panic, logged before")

func safely(o Owner, f func() error) (err error) {
	if !guard.Do(func() { err = f() }, o.Panicked) {
		return errPanic
	}
	return err
}

// attach subscribes first and reads the stream last: publications meanwhile are delivered.
func (g *Engines) attach(ctx context.Context, o Owner, it *effect.AttachItem, inline bool) {
	it.Err = safely(o, func() (err error) {
		it.ChannelID, err = g.Routes.Add(ctx, it.Channel, o.Loop())
		return err
	})
	if it.Err != nil {
		o.Failed("broker subscribe", it.Channel, it.Err)
		return
	}
	it.Err = safely(o, func() (err error) {
		if it.Info != nil {
			err = g.Presence.Add(ctx, it.Channel, it.Info)
		}
		if err == nil && it.Appears != nil {
			err = g.Appear(ctx, it.Appears.Info, it.Appears.Maps)
		}
		if err == nil && it.Fragile {
			g.Fragile(it.Channel)
		}
		if err == nil && it.Positioned {
			it.MetaTTL = g.metaTTL(it.Channel, it.MetaTTL)
			g.Watch(it.Channel, it.MetaTTL)
			g.meter.Action(reads(&it.HistoryFilter), it.Channel, 1)
			it.History, err = g.Streams.History(ctx, it.Channel, it.HistoryFilter)
		}
		if err == nil && it.Resumes && it.Top.Offset == 0 {
			err = g.streamless(ctx, it.Channel)
		}
		if err == nil && !inline && g.Fill != nil && it.Lacks(it.History) {
			err = g.refill(ctx, it)
		}
		return err
	})
	if it.Err == nil {
		return
	}
	o.Failed("subscribe", it.Channel, it.Err)
	undo := effect.DetachItem{Channel: it.Channel, Presence: it.Info != nil, Info: it.Info}
	if it.Appears != nil {
		undo.Maps = it.Appears.Maps
	}
	if err := g.Detach(o, &undo); err != nil {
		o.Failed("undoing subscribe", it.Channel, err)
	}
}

func (g *Engines) refill(ctx context.Context, it *effect.AttachItem) error {
	filled, err := g.Fill.Do(ctx, it.Channel)
	switch {
	case err != nil:
		return &effect.Unfilled{Err: err}
	case filled:
		it.History, err = g.Streams.History(ctx, it.Channel, it.HistoryFilter)
	}
	return err
}

func (g *Engines) metaTTL(ch string, own time.Duration) time.Duration {
	if own == 0 {
		own = g.MetaTTL(ch)
	}
	return own
}

func reads(f *broker.HistoryFilter) observe.Action {
	switch {
	case f.Reverse:
		return observe.ActionHistoryRecoverCache
	case f.Since != nil:
		return observe.ActionHistoryRecover
	}
	return observe.ActionHistoryStreamTop
}

// History reads a stream for a client or a backend, with the checks that engines leave out.
func (g *Engines) History(ctx context.Context, ch string, f broker.HistoryFilter) (broker.History, error) {
	if f.Reverse && f.Since != nil && f.Since.Offset == 0 {
		return broker.History{}, protocol.ErrorBadRequest
	}
	f.MetaTTL = g.metaTTL(ch, f.MetaTTL)
	g.meter.Action(observe.ActionHistory, ch, 1)
	h, err := g.Streams.History(ctx, ch, f)
	if err != nil {
		return broker.History{}, err
	}
	if f.Since != nil && f.Since.Epoch != "" && f.Since.Epoch != h.Top.Epoch {
		return broker.History{Top: h.Top}, protocol.ErrorUnrecoverablePosition
	}
	return h, nil
}

// HistoryFor is History for a client. If the stream is empty, the application may fill it first.
func (g *Engines) HistoryFor(ctx context.Context, ch string, f broker.HistoryFilter) (broker.History, error) {
	h, err := g.History(ctx, ch, f)
	if err != nil || g.Fill == nil || f.Limit == 0 || len(h.Publications) > 0 {
		return h, err
	}
	if f.Since != nil && (f.Reverse || f.Since.Offset >= h.Top.Offset) {
		return h, nil // there may be publications on the other side of the position
	}
	filled, err := g.Fill.Do(ctx, ch)
	switch {
	case err != nil:
		return h, &effect.Unfilled{Err: err}
	case filled:
		return g.History(ctx, ch, f)
	}
	return h, nil
}

// Detach removes the presence, publishes the leave and unsubscribes, each also if one before has failed, or the
// connection has ended.
func (g *Engines) Detach(o Owner, it *effect.DetachItem) error {
	ctx := context.Background()
	var absent, left, gone error
	if it.Presence {
		absent = safely(o, func() error { return g.Presence.Remove(ctx, it.Channel, o.ID(), it.Info.User) })
	}
	if it.Leave {
		left = safely(o, func() error { return g.Broker.PublishLeave(ctx, it.Channel, it.Info) })
	}
	if len(it.Maps) > 0 {
		gone = safely(o, func() error { return g.disappear(ctx, o.ID(), it.Maps) })
	}
	return errors.Join(absent, left, gone, safely(o, func() error { return g.Routes.Remove(ctx, it.Channel, o.Loop()) }))
}
