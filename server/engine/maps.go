package engine

import (
	"fmt"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/server/config"
)

// mapBroker is the name of the broker of maps. No section brokers has it.
const mapBroker = "map_broker "

// isMap tells whether the channels of a namespace are maps.
func isMap(o *config.ChannelOptions) bool {
	switch o.SubscriptionType {
	case config.TypeMap, config.TypeMapClients, config.TypeMapUsers:
		return true
	}
	return false
}

// hasMaps tells whether a namespace has maps.
func hasMaps(cfg *config.Config) bool {
	if isMap(&cfg.Channel.WithoutNamespace) {
		return true
	}
	for i := range cfg.Channel.Namespaces {
		if isMap(&cfg.Channel.Namespaces[i].ChannelOptions) {
			return true
		}
	}
	return false
}

// maps adds the broker of maps to the brokers, unless nothing needs one. In the process, the default broker
// has the maps if it is in the process, too.
func (m *maker) maps(brokers *named[broker.Broker]) {
	if !hasMaps(m.cfg) {
		return
	}
	c := &m.cfg.MapBroker
	m.note("map_broker", c.Type)
	local := brokers.list[0].Describe().Local
	if c.Type == config.TypeMemory && local {
		brokers.index[mapBroker] = 0
		return
	}
	if c.Type == config.TypeMemory {
		m.log.Warn("each node has maps of its own: they are kept in memory", "key", "map_broker.type")
	}
	brokers.add(mapBroker, func() (broker.Broker, error) {
		if c.Type == config.TypeMemory {
			return memory.New(m.memory()), nil
		}
		e, err := m.redis("map_broker.redis", &c.Redis.PrefixedRedis, config.RedisBroker{}, config.RedisPresence{}, func(of *redis.Config) {
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
	if !isMap(o) {
		return s.brokerIndex[o.BrokerName], nil
	}
	at, ok := s.brokerIndex[mapBroker]
	if !ok {
		return 0, fmt.Errorf("%s.subscription_type: the server was started without namespaces of this type: restart it", key)
	}
	return at, nil
}
