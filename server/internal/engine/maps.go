package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/fullstate"
	"github.com/gyrohq/gyro/broker/mapcache"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/broker/postgres"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/config/engines"
)

func needsMapBroker(cfg *config.Config) bool {
	needs := func(o *config.ChannelOptions) bool { return o.IsMap() && o.Map.BrokerName == "" }
	if needs(&cfg.Channel.WithoutNamespace) {
		return true
	}
	for i := range cfg.Channel.Namespaces {
		if needs(&cfg.Channel.Namespaces[i].ChannelOptions) {
			return true
		}
	}
	return false
}

// maps adds the brokers of maps. The default broker serves maps, too, if both brokers are in the process, or use the
// same tables of PostgreSQL: nodes then read publications and maps together.
func (m *maker) maps(brokers *named[broker.Broker]) {
	for i := range m.cfg.MapBrokers {
		c := &m.cfg.MapBrokers[i]
		if c.Enabled {
			brokers.add(slot{forMaps, c.Name}, func() (broker.Broker, error) {
				return m.mapBroker(config.Element("map_brokers", i, c.Name), &c.MapBroker)
			})
		}
	}
	c := &m.cfg.MapBroker
	switch {
	case !needsMapBroker(m.cfg):
	case c.Type == engines.TypeMemory && brokers.list[0].Describe().Local, m.sharesPostgres():
		m.note("map_broker", c.Type)
		brokers.list[0] = m.cache("map_broker", brokers.list[0], c)
		brokers.index[slot{channels: forMaps}] = 0
	default:
		brokers.add(slot{channels: forMaps}, func() (broker.Broker, error) { return m.mapBroker("map_broker", c) })
	}
}

func (m *maker) mapBroker(key string, c *engines.MapBroker) (b broker.Broker, err error) {
	m.note(key, c.Type)
	switch c.Type {
	case engines.TypePostgres:
		b, err = m.postgres(key+".postgres", &c.Postgres.Postgres, func(of *postgres.Config) { of.MapExpiryInterval = c.Postgres.TTLCheckInterval })
	case engines.TypeRedis:
		var e *redis.Engine
		e, err = m.redis(key+".redis", &c.Redis.PrefixedRedis, engines.RedisBroker{}, engines.RedisPresence{}, func(of *redis.Config) {
			of.MapExpiryInterval, of.IdempotencyTTL, of.SkipPubSub = c.Redis.CleanupInterval, c.Redis.IdempotentResultTTL, c.Redis.SkipPubSub
		})
		if err == nil {
			b = e.Broker()
		}
	default:
		m.log.Warn("each node has maps of its own: they are kept in memory", "key", key+".type")
		b = memory.New(m.memory())
	}
	if err != nil {
		return nil, err
	}
	return m.cache(key, b, c), nil
}

func (m *maker) cache(key string, b broker.Broker, of *engines.MapBroker) broker.Broker {
	if !of.Cached() {
		return b
	}
	c := &of.Cache
	return mapcache.New(b, mapcache.Config{
		IsMap:       func(ch string) bool { return m.routes().hasStreamedMap(ch) },
		MaxChannels: c.MaxChannels, MaxBytes: c.MaxBytes, IdleTimeout: c.IdleTimeout, StreamSize: c.StreamSize, LoadTimeout: c.LoadTimeout,
		SyncInterval: c.SyncInterval, SyncBatchSize: c.SyncBatchSize, SyncConcurrency: c.SyncConcurrency,
		Logger: m.log.With("key", key+".cache"),
	})
}

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
	// The composition leads to the maps. It has this broker as well.
	all := func() broker.Traits { return m.set.Broker.Describe() }
	brokers.add(slot{channels: forFullState}, func() (broker.Broker, error) {
		return fullstate.New(fullstate.Config{
			Of: of,
			State: func(ctx context.Context, ch string, filter channel.StateFilter) (channel.State, error) {
				return all().Maps.State(ctx, ch, filter)
			},
			Positions: func(ctx context.Context, channels []string) []broker.PositionResult {
				return all().Positions(ctx, channels, 0)
			},
			Local: !remote, Log: m.log,
		}), nil
	})
}

// brokerOf returns the index of the broker of a namespace. fullState says that it shows maps.
func (s *Set) brokerOf(key string, o *config.ChannelOptions, fullState bool) (int, error) {
	of, option := slot{name: o.BrokerName}, ""
	switch {
	case o.IsMap():
		of, option = slot{forMaps, o.Map.BrokerName}, ".subscription_type: the server was started without namespaces of this type"
	case fullState:
		of, option = slot{channels: forFullState}, ": the server was started without full-state channels"
	}
	at, ok := s.brokerIndex[of]
	if !ok && option != "" {
		return 0, fmt.Errorf("%s%s: restart it", key, option)
	}
	return at, nil
}
