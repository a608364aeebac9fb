package engines

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// limitPatience is how long a call waits for a slot. Then its error wraps protocol.ErrorTooManyRequests, which tells
// clients to try again later.
const limitPatience = 10 * time.Second

// Limits bound the load that all clients of a failed node cause when they come at once: few calls are in progress at a
// time, and identical reads share a round trip.

// limitedBroker limits Subscribe and History. Other calls, Describe included, go straight to the broker.
type limitedBroker struct {
	broker.Broker
	slots   slots
	history *flights[historyKey, historyQuery, broker.History]
}

func limitBroker(b broker.Broker, limit int) *limitedBroker {
	g := &limitedBroker{Broker: b, slots: slots{limit: limit, patience: limitPatience}}
	g.history = newFlights(&g.slots, cloneHistory, func(ctx context.Context, q historyQuery) (broker.History, error) {
		return b.History(ctx, q.ch, q.filter)
	})
	return g
}

// Maps returns m behind the same limit; nil stays nil.
func (g *limitedBroker) Maps(m broker.Maps) broker.Maps {
	if m == nil {
		return nil
	}
	return &limitedMaps{m, newFlights(&g.slots, cloneState, func(ctx context.Context, q stateQuery) (channel.State, error) {
		return m.State(ctx, q.ch, q.filter)
	})}
}

type limitedMaps struct {
	broker.Maps
	state *flights[stateQuery, stateQuery, channel.State]
}

type stateQuery struct {
	ch     string
	filter channel.StateFilter
}

func (q stateQuery) key() stateQuery { return q }
func (q stateQuery) own() stateQuery { return q }

func cloneState(s channel.State) channel.State {
	s.Entries = slices.Clone(s.Entries)
	return s
}

// State implements broker.Maps.
func (m *limitedMaps) State(ctx context.Context, ch string, filter channel.StateFilter) (channel.State, error) {
	return m.state.do(ctx, stateQuery{ch, filter})
}

type historyQuery struct {
	ch     string
	filter broker.HistoryFilter
}

type historyKey struct {
	historyQuery
	positioned bool // since counts
	since      channel.StreamPosition
}

func (q historyQuery) key() historyKey {
	k := historyKey{historyQuery: q}
	if since := q.filter.Since; since != nil {
		k.positioned, k.since, k.filter.Since = true, *since, nil
	}
	return k
}

func (q historyQuery) own() historyQuery {
	if q.filter.Since != nil {
		q.filter.Since = new(*q.filter.Since)
	}
	return q
}

// cloneHistory copies the list and not the publications, which no reader changes.
func cloneHistory(h broker.History) broker.History {
	h.Publications = slices.Clone(h.Publications)
	return h
}

func (g *limitedBroker) History(ctx context.Context, ch string, filter broker.HistoryFilter) (broker.History, error) {
	return g.history.do(ctx, historyQuery{ch, filter})
}

func (g *limitedBroker) Subscribe(ctx context.Context, channels ...string) error {
	if err := g.slots.acquire(ctx); err != nil {
		return err
	}
	defer g.slots.release()
	return g.Broker.Subscribe(ctx, channels...)
}

// limitedPresence limits Add, Presence and Stats, but not Remove, because that makes room.
type limitedPresence struct {
	broker.PresenceManager
	slots   slots
	clients *flights[string, channelQuery, map[string]*channel.ClientInfo]
	stats   *flights[string, channelQuery, broker.PresenceStats]
}

func limitPresence(p broker.PresenceManager, limit int) *limitedPresence {
	g := &limitedPresence{PresenceManager: p, slots: slots{limit: limit, patience: limitPatience}}
	g.clients = newFlights(&g.slots, maps.Clone[map[string]*channel.ClientInfo], func(ctx context.Context, q channelQuery) (map[string]*channel.ClientInfo, error) {
		return p.Presence(ctx, string(q))
	})
	g.stats = newFlights(&g.slots, func(s broker.PresenceStats) broker.PresenceStats { return s }, func(ctx context.Context, q channelQuery) (broker.PresenceStats, error) {
		return p.Stats(ctx, string(q))
	})
	return g
}

type channelQuery string

func (q channelQuery) key() string       { return string(q) }
func (q channelQuery) own() channelQuery { return q }

func (g *limitedPresence) Presence(ctx context.Context, ch string) (map[string]*channel.ClientInfo, error) {
	return g.clients.do(ctx, channelQuery(ch))
}

func (g *limitedPresence) Stats(ctx context.Context, ch string) (broker.PresenceStats, error) {
	return g.stats.do(ctx, channelQuery(ch))
}

func (g *limitedPresence) Add(ctx context.Context, ch string, info *channel.ClientInfo) error {
	if err := g.slots.acquire(ctx); err != nil {
		return err
	}
	defer g.slots.release()
	return g.PresenceManager.Add(ctx, ch, info)
}
