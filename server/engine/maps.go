package engine

import (
	"fmt"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/broker/redis"
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

// brokerOf returns the index of the broker of a namespace, whose key is given.
func (s *Set) brokerOf(key string, o *config.ChannelOptions) (int, error) {
	if !o.IsMap() {
		return s.brokerIndex[o.BrokerName], nil
	}
	at, ok := s.brokerIndex[mapBroker]
	if !ok {
		return 0, fmt.Errorf("%s.subscription_type: the server was started without namespaces of this type: restart it", key)
	}
	return at, nil
}
