// Package attach establishes the subscriptions of clients at the engines of a node,
// and ends them.
package attach

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/internal/contain"
	"github.com/gyrohq/gyro/internal/gate"
	"github.com/gyrohq/gyro/internal/presence"
	"github.com/gyrohq/gyro/internal/route"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/protocol"
)

// Engines of a node, and what it knows of channels. It is constant once it is used.
type Engines struct {
	Broker broker.Broker
	Traits broker.Traits // of Broker
	// Streams is Broker for the calls of many clients at a time, Subscribe and History,
	// and Presence is for all of them: behind gates, unless the engines are local. What
	// leaves Presence is removed even if that fails at first.
	Streams  broker.Broker
	Presence broker.PresenceManager
	Routes   *route.Table
	// Watch has positions in a channel checked from now on.
	Watch func(ch string, metaTTL time.Duration)
	// Local is set if none of the engines makes callers wait: see broker.Traits.
	Local    bool
	presence *presence.Manager // nil if the presence manager is local
}

// New puts gates before the engines that are not in the process: so many calls may be
// in progress at each.
func New(b broker.Broker, p broker.PresenceManager, concurrency int, log *slog.Logger) *Engines {
	g := &Engines{Broker: b, Traits: b.Describe(), Streams: b, Presence: p}
	localPresence := p.Describe().Local
	g.Local = g.Traits.Local && localPresence
	if !g.Traits.Local {
		g.Streams = gate.NewBroker(b, concurrency)
	}
	if !localPresence {
		g.presence = presence.New(gate.NewPresence(p, concurrency), log)
		g.Presence = g.presence
	}
	g.Routes = route.New(g.Streams)
	return g
}

// Close ends what goes on in the background: removals of presence that have failed are
// tried again for 2 s at most. No call may come behind it.
func (g *Engines) Close() {
	if g.presence != nil {
		g.presence.Close()
	}
	g.Routes.Close()
}

// Owner of subscriptions: a client.
type Owner interface {
	// ID of the client.
	ID() string
	// Loop is the number of the client's loop.
	Loop() int
	// Failed logs what went wrong.
	Failed(what, ch string, err error)
	// Panicked logs a panic of an engine.
	Panicked(reason any, stack []byte)
}

// atOnce is how many subscriptions of one client are established side by side; they
// matter to engines over a network only.
const atOnce = 16

// Attach establishes subscriptions, and sets the results and the error of each.
func (g *Engines) Attach(ctx context.Context, o Owner, items []*session.AttachItem) {
	if len(items) == 1 || g.Local {
		for _, it := range items {
			g.attach(ctx, o, it)
		}
		return
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, it := range items {
		slots <- struct{}{}
		wg.Go(func() {
			g.attach(ctx, o, it)
			<-slots
		})
	}
	wg.Wait()
}

// errPanic is the outcome of what panicked.
var errPanic = errors.New("panic, logged before")

// guard contains a panic of f, so that everything else is done or undone.
func guard(o Owner, f func() error) (err error) {
	if !contain.Do(func() { err = f() }, o.Panicked) {
		return errPanic
	}
	return err
}

// attach follows the order of recovery.md 4.2, steps 2 to 4.
func (g *Engines) attach(ctx context.Context, o Owner, it *session.AttachItem) {
	it.Err = guard(o, func() (err error) {
		it.ChannelID, err = g.Routes.Add(ctx, it.Channel, o.Loop())
		return err
	})
	if it.Err != nil {
		o.Failed("broker subscribe", it.Channel, it.Err)
		return
	}
	it.Err = guard(o, func() (err error) {
		if it.Info != nil {
			err = g.Presence.Add(ctx, it.Channel, it.Info)
		}
		if err == nil && it.Positioned {
			g.Watch(it.Channel, it.MetaTTL)
			it.History, err = g.Streams.History(ctx, it.Channel, it.HistoryFilter)
		}
		return err
	})
	if it.Err == nil {
		return
	}
	o.Failed("subscribe", it.Channel, it.Err)
	undo := session.DetachItem{Channel: it.Channel, Presence: it.Info != nil, Info: it.Info}
	if err := g.Detach(o, &undo); err != nil {
		o.Failed("undoing subscribe", it.Channel, err)
	}
}

// History reads a stream for whoever asks, and checks what engines do not.
func (g *Engines) History(ctx context.Context, ch string, f broker.HistoryFilter) (broker.History, error) {
	if f.Reverse && f.Since != nil && f.Since.Offset == 0 {
		return broker.History{}, protocol.ErrorBadRequest
	}
	h, err := g.Streams.History(ctx, ch, f)
	if err != nil {
		return broker.History{}, err
	}
	if f.Since != nil && f.Since.Epoch != "" && f.Since.Epoch != h.Top.Epoch {
		return broker.History{Top: h.Top}, protocol.ErrorUnrecoverablePosition
	}
	return h, nil
}

// Detach ends a subscription, in the order of client-protocol.md 8.3. The connection
// may have ended, so its life does not count.
func (g *Engines) Detach(o Owner, it *session.DetachItem) error {
	ctx := context.Background()
	var absent, left error
	if it.Presence {
		absent = guard(o, func() error { return g.Presence.Remove(ctx, it.Channel, o.ID(), it.Info.User) })
	}
	if it.Leave {
		left = guard(o, func() error { return g.Broker.PublishLeave(ctx, it.Channel, it.Info) })
	}
	return errors.Join(absent, left, guard(o, func() error { return g.Routes.Remove(ctx, it.Channel, o.Loop()) }))
}
