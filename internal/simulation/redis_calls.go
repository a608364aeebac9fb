package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// redisBroker stands between a node and its engine on Redis. Goroutines of a node call the engine at one moment, and get
// the answers of a broken connection at one moment. The scheduler lets them pass one after the other, in the order of what
// they ask, so that a run depends on its seed alone.
type redisBroker struct {
	broker.Broker
	l      *redisLink
	traits broker.Traits // of the engine
}

// redisPresence is the presence manager of a redisBroker.
type redisPresence struct {
	broker.PresenceManager
	b *redisBroker
}

// redisMaps is the maps of a redisBroker.
type redisMaps struct {
	broker.Maps
	b *redisBroker
}

// Describe implements broker.Engine.
func (b *redisBroker) Describe() broker.Traits {
	t := b.traits
	t.Batch, t.Positions, t.Control, t.Presence = b.batch, b.positions, b, &redisPresence{t.Presence, b}
	if t.Maps != nil {
		t.Maps = &redisMaps{t.Maps, b}
	}
	return t
}

// call waits for its turn, calls the engine, and waits for the turn of the answer. The first word of key is the kind of the
// call.
func (b *redisBroker) call(ctx context.Context, key string, do func(context.Context) error) error {
	name, l := b.l.name+" "+key, b.l
	pass, answered := make(chan error, 1), make(chan struct{})
	l.s.tell(name, func() {
		l.s.after(1, name, func() { // when all have come that come at this moment
			kind, _, _ := strings.Cut(key, " ")
			if l.moment("engine " + kind); !l.dead {
				l.s.log.add(l.name, "engine? %s", key)
			}
			l.admit(name, pass)
		})
	})
	var err error
	select {
	case err = <-pass:
		if err == nil {
			err = do(ctx)
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = context.DeadlineExceeded // whichever call was the first to need the connection
	}
	l.s.tell(name+" answer", func() {
		l.s.after(1, name+" answer", func() {
			l.answered(pass, err)
			close(answered)
		})
	})
	<-answered
	return err
}

// admit lets a call pass. Without a connection the first one makes it, and the others wait for its answer.
func (l *redisLink) admit(name string, pass chan error) {
	switch {
	case l.connected():
		pass <- nil
	case l.first == nil:
		l.first = pass
		pass <- nil
	default:
		l.waiting = append(l.waiting, waitingCall{name, pass})
	}
}

// answered ends the wait of other calls if this one was the first.
func (l *redisLink) answered(pass chan error, err error) {
	l.waiting = slices.DeleteFunc(l.waiting, func(w waitingCall) bool { return w.pass == pass })
	if l.first != pass {
		return
	}
	l.first = nil
	waiting := l.waiting
	l.waiting = nil
	for _, w := range waiting {
		l.s.after(1, w.name, func() {
			if l.connected() {
				err = nil
			}
			w.pass <- err
		})
	}
}

// waitingCall waits for a connection.
type waitingCall struct {
	name string
	pass chan error
}

// Subscribe implements broker.Broker.
func (b *redisBroker) Subscribe(ctx context.Context, channels ...string) error {
	return b.call(ctx, fmt.Sprint("subscribe ", channels), func(ctx context.Context) error { return b.Broker.Subscribe(ctx, channels...) })
}

// Unsubscribe implements broker.Broker.
func (b *redisBroker) Unsubscribe(ctx context.Context, channels ...string) error {
	return b.call(ctx, fmt.Sprint("unsubscribe ", channels), func(ctx context.Context) error { return b.Broker.Unsubscribe(ctx, channels...) })
}

// Publish implements broker.Broker.
func (b *redisBroker) Publish(ctx context.Context, ch string, pub *channel.Publication, o broker.PublishOptions) (res broker.PublishResult, err error) {
	err = b.call(ctx, fmt.Sprintf("publish %s %s", ch, pub.Data), func(ctx context.Context) (err error) {
		res, err = b.Broker.Publish(ctx, ch, pub, o)
		return err
	})
	return res, err
}

func (b *redisBroker) batch(ctx context.Context, items []broker.BatchItem) {
	key := fmt.Sprintf("publish %d, the first one %s %s", len(items), items[0].Channel, items[0].Pub.Data)
	err := b.call(ctx, key, func(ctx context.Context) error {
		b.traits.Batch(ctx, items)
		return nil
	})
	for i := range items {
		if err != nil {
			items[i].Err = err
		}
	}
}

// PublishJoin implements broker.Broker.
func (b *redisBroker) PublishJoin(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return b.call(ctx, "join "+ch+" "+info.Client, func(ctx context.Context) error { return b.Broker.PublishJoin(ctx, ch, info) })
}

// PublishLeave implements broker.Broker.
func (b *redisBroker) PublishLeave(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return b.call(ctx, "leave "+ch+" "+info.Client, func(ctx context.Context) error { return b.Broker.PublishLeave(ctx, ch, info) })
}

// History implements broker.Broker.
func (b *redisBroker) History(ctx context.Context, ch string, f broker.HistoryFilter) (h broker.History, err error) {
	err = b.call(ctx, historyKey(ch, f), func(ctx context.Context) (err error) {
		h, err = b.Broker.History(ctx, ch, f)
		return err
	})
	return h, err
}

// positions is of many streams.
func (b *redisBroker) positions(ctx context.Context, channels []string, metaTTL time.Duration) (results []broker.PositionResult) {
	err := b.call(ctx, fmt.Sprint("positions ", channels, metaTTL), func(ctx context.Context) error {
		results = b.traits.Positions(ctx, channels, metaTTL)
		return nil
	})
	if err != nil {
		return slices.Repeat([]broker.PositionResult{{Err: err}}, len(channels))
	}
	return results
}

// RemoveHistory implements broker.Broker.
func (b *redisBroker) RemoveHistory(ctx context.Context, ch string) error {
	return b.call(ctx, "remove "+ch, func(ctx context.Context) error { return b.Broker.RemoveHistory(ctx, ch) })
}

// RunControl implements broker.Controller.
func (b *redisBroker) RunControl(node string, handle func([]byte)) error {
	return b.traits.Control.RunControl(node, handle)
}

// PublishControl implements broker.Controller.
func (b *redisBroker) PublishControl(ctx context.Context, node string, data []byte) error {
	return b.call(ctx, controlKey(node, data), func(ctx context.Context) error { return b.traits.Control.PublishControl(ctx, node, data) })
}

// Describe implements broker.Engine.
func (p *redisPresence) Describe() broker.Traits { return p.b.Describe() }

// Add implements broker.PresenceManager.
func (p *redisPresence) Add(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return p.b.call(ctx, "present "+ch+" "+info.Client, func(ctx context.Context) error { return p.PresenceManager.Add(ctx, ch, info) })
}

// Remove implements broker.PresenceManager.
func (p *redisPresence) Remove(ctx context.Context, ch, client, user string) error {
	return p.b.call(ctx, "absent "+ch+" "+client, func(ctx context.Context) error { return p.PresenceManager.Remove(ctx, ch, client, user) })
}

// Presence implements broker.PresenceManager.
func (p *redisPresence) Presence(ctx context.Context, ch string) (found map[string]*channel.ClientInfo, err error) {
	err = p.b.call(ctx, "presence "+ch, func(ctx context.Context) (err error) {
		found, err = p.PresenceManager.Presence(ctx, ch)
		return err
	})
	return found, err
}

// Stats implements broker.PresenceManager.
func (p *redisPresence) Stats(ctx context.Context, ch string) (stats broker.PresenceStats, err error) {
	err = p.b.call(ctx, "presence of "+ch, func(ctx context.Context) (err error) {
		stats, err = p.PresenceManager.Stats(ctx, ch)
		return err
	})
	return stats, err
}

// Change implements broker.Maps.
func (m *redisMaps) Change(ctx context.Context, ch string, pub *channel.Publication, o channel.MapOptions) (res channel.MapResult, err error) {
	err = m.b.call(ctx, changeKey(ch, pub, o), func(ctx context.Context) (err error) {
		res, err = m.Maps.Change(ctx, ch, pub, o)
		return err
	})
	return res, err
}

// State implements broker.Maps.
func (m *redisMaps) State(ctx context.Context, ch string, f channel.StateFilter) (st channel.State, err error) {
	err = m.b.call(ctx, stateKey(ch, f), func(ctx context.Context) (err error) {
		st, err = m.Maps.State(ctx, ch, f)
		return err
	})
	return st, err
}

// Clear implements broker.Maps.
func (m *redisMaps) Clear(ctx context.Context, ch string) error {
	return m.b.call(ctx, "clear "+ch, func(ctx context.Context) error { return m.Maps.Clear(ctx, ch) })
}
