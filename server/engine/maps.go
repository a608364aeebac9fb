package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/fullstate"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/server/config"
	"github.com/gyrohq/gyro/server/config/engines"
)

// mapBroker is the name of the broker of maps. No section brokers has it.
const mapBroker = "map_broker "

// hasMaps tells whether a namespace has maps.
func hasMaps(cfg *config.Config) bool {
	if cfg.Channel.WithoutNamespace.IsMap() {
		return true
	}
	for i := range cfg.Channel.Namespaces {
		if cfg.Channel.Namespaces[i].ChannelOptions.IsMap() {
			return true
		}
	}
	return false
}

// maps adds the broker of maps to the brokers, unless nothing needs one. The default broker has the maps, too, if
// both are in the process, or if both are the same tables of PostgreSQL: what nodes read there has both.
func (m *maker) maps(brokers *named[broker.Broker]) {
	if !hasMaps(m.cfg) {
		return
	}
	c := &m.cfg.MapBroker
	m.note("map_broker", c.Type)
	if c.Type == engines.TypeMemory && brokers.list[0].Describe().Local || m.sharesPostgres() {
		brokers.index[mapBroker] = 0
		return
	}
	if c.Type == engines.TypeMemory {
		m.log.Warn("each node has maps of its own: they are kept in memory", "key", "map_broker.type")
	}
	brokers.add(mapBroker, func() (broker.Broker, error) {
		switch c.Type {
		case engines.TypeMemory:
			return memory.New(m.memory()), nil
		case engines.TypePostgres:
			return m.postgres("map_broker.postgres", &c.Postgres.Postgres)
		}
		e, err := m.redis("map_broker.redis", &c.Redis.PrefixedRedis, engines.RedisBroker{}, engines.RedisPresence{}, func(of *redis.Config) {
			of.MapExpiryInterval, of.IdempotencyTTL, of.SkipPubSub = c.Redis.CleanupInterval, c.Redis.IdempotentResultTTL, c.Redis.SkipPubSub
		})
		if err != nil {
			return nil, err
		}
		return e.Broker(), nil
	})
}

// fullStateBroker is the name of the broker of full-state channels. No section brokers has it.
const fullStateBroker = "full_state "

// fullState adds the broker of full-state channels to the brokers, if there are any.
func (m *maker) fullState(brokers *named[broker.Broker]) {
	if len(m.cfg.Channel.FullStates()) == 0 {
		return
	}
	remote := slices.ContainsFunc(brokers.list, func(b broker.Broker) bool { return !b.Describe().Local })
	of := func(ch string) (fullstate.Map, bool) {
		shown, ok := m.routes().channels.FullState(ch)
		if !ok {
			return fullstate.Map{}, false
		}
		return fullstate.Map{Channel: shown.Name, Ephemeral: shown.Map.Mode == "ephemeral", Interval: shown.Map.FullStateInterval}, true
	}
	// The composition, which has this broker as well, leads to the maps.
	all := func() broker.Traits { return m.set.Broker.Describe() }
	brokers.add(fullStateBroker, func() (broker.Broker, error) {
		return fullstate.New(fullstate.Config{
			Of: of,
			State: func(ctx context.Context, ch string, filter channel.StateFilter) (channel.State, error) {
				return all().Maps.State(ctx, ch, filter)
			},
			Positions: func(ctx context.Context, channels []string) []broker.PositionResult {
				return all().Positions(ctx, channels)
			},
			Local: !remote, Log: m.log,
		}), nil
	})
}

// brokerOf returns the index of the broker of a namespace, whose key is given. fullState says that it shows maps.
func (s *Set) brokerOf(key string, o *config.ChannelOptions, fullState bool) (int, error) {
	name, option := o.BrokerName, ""
	switch {
	case o.IsMap():
		name, option = mapBroker, ".subscription_type: the server was started without namespaces of this type"
	case fullState:
		name, option = fullStateBroker, ": the server was started without full-state channels"
	}
	at, ok := s.brokerIndex[name]
	if !ok && option != "" {
		return 0, fmt.Errorf("%s%s: restart it", key, option)
	}
	return at, nil
}
