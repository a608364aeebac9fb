// Package gate stands in front of engines that are reached over a network. When all
// clients of a failed node come at once, it keeps the load that they cause there
// within bounds: the calls in progress are limited, and identical reads share a round
// trip.
package gate

import (
	"context"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// Patience is how long a call waits for its turn. Afterwards it fails with
// protocol.ErrorTooManyRequests, wrapped, upon which clients try again later.
const Patience = 10 * time.Second

// Broker is a broker behind the gate: Subscribe and History are limited, and
// identical calls of History that are made at a time share a round trip. Other calls
// pass, and its traits are those of the engine.
type Broker struct {
	broker.Broker
	slots   slots
	history *flights[historyKey, broker.History]
}

// NewBroker returns a gate in front of b with at most limit calls in progress; less
// than 1 is no limit.
func NewBroker(b broker.Broker, limit int) *Broker {
	g := &Broker{Broker: b, slots: slots{limit: limit, patience: Patience}}
	g.history = newFlights(&g.slots, cloneHistory, func(ctx context.Context, k historyKey) (broker.History, error) {
		return b.History(ctx, k.ch, k.filter)
	})
	return g
}

type historyKey struct {
	ch     string
	filter broker.HistoryFilter
}

func (k historyKey) same(other historyKey) bool {
	a, b := k.filter.Since, other.filter.Since
	return k.ch == other.ch && k.filter.Limit == other.filter.Limit && k.filter.Reverse == other.filter.Reverse &&
		k.filter.MetaTTL == other.filter.MetaTTL && (a == b || a != nil && b != nil && *a == *b)
}

// hash mixes what differs between the readers of one channel.
func (k historyKey) hash(seed maphash.Seed) uint64 {
	h := maphash.String(seed, k.ch) ^ uint64(k.filter.Limit)
	if k.filter.Since != nil {
		h ^= k.filter.Since.Offset * 0x9e3779b97f4a7c15 // 2^64 by the golden ratio: spreads neighbours
	}
	return h
}

func (k historyKey) own() historyKey {
	if k.filter.Since != nil {
		k.filter.Since = new(*k.filter.Since)
	}
	return k
}

// cloneHistory leaves the publications shared, which nobody changes.
func cloneHistory(h broker.History) broker.History {
	h.Publications = slices.Clone(h.Publications)
	return h
}

// History implements broker.Broker.
func (g *Broker) History(ctx context.Context, ch string, filter broker.HistoryFilter) (broker.History, error) {
	return g.history.do(ctx, historyKey{ch, filter})
}

// Subscribe implements broker.Broker.
func (g *Broker) Subscribe(ctx context.Context, channels ...string) error {
	if err := g.slots.acquire(ctx); err != nil {
		return err
	}
	defer g.slots.release()
	return g.Broker.Subscribe(ctx, channels...)
}

// Presence is a presence manager behind the gate: Add, Presence and Stats are
// limited, and identical reads that are made at a time share a round trip. Remove
// passes: what ends a connection makes room for others.
type Presence struct {
	broker.PresenceManager
	slots   slots
	clients *flights[channelKey, map[string]*channel.ClientInfo]
	stats   *flights[channelKey, broker.PresenceStats]
}

// NewPresence returns a gate in front of p with at most limit calls in progress; less
// than 1 is no limit.
func NewPresence(p broker.PresenceManager, limit int) *Presence {
	g := &Presence{PresenceManager: p, slots: slots{limit: limit, patience: Patience}}
	g.clients = newFlights(&g.slots, maps.Clone[map[string]*channel.ClientInfo], func(ctx context.Context, k channelKey) (map[string]*channel.ClientInfo, error) {
		return p.Presence(ctx, string(k))
	})
	g.stats = newFlights(&g.slots, func(s broker.PresenceStats) broker.PresenceStats { return s }, func(ctx context.Context, k channelKey) (broker.PresenceStats, error) {
		return p.Stats(ctx, string(k))
	})
	return g
}

type channelKey string

func (k channelKey) same(other channelKey) bool    { return k == other }
func (k channelKey) own() channelKey               { return k }
func (k channelKey) hash(seed maphash.Seed) uint64 { return maphash.String(seed, string(k)) }

// Presence implements broker.PresenceManager.
func (g *Presence) Presence(ctx context.Context, ch string) (map[string]*channel.ClientInfo, error) {
	return g.clients.do(ctx, channelKey(ch))
}

// Stats implements broker.PresenceManager.
func (g *Presence) Stats(ctx context.Context, ch string) (broker.PresenceStats, error) {
	return g.stats.do(ctx, channelKey(ch))
}

// Add implements broker.PresenceManager.
func (g *Presence) Add(ctx context.Context, ch string, info *channel.ClientInfo) error {
	if err := g.slots.acquire(ctx); err != nil {
		return err
	}
	defer g.slots.release()
	return g.PresenceManager.Add(ctx, ch, info)
}
