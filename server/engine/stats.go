package engine

import (
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/nats"
	"github.com/gyrohq/gyro/broker/redis"
)

// BrokerStats tell how a broker over a network is. Exactly one of Redis and NATS is
// set.
type BrokerStats struct {
	Name  string // of the element of brokers; empty for the default one
	Redis *RedisStats
	NATS  *NATSStats
}

// RedisStats of a broker. There are no Shards before it runs and after it was closed.
type RedisStats struct {
	Shards []redis.Stats
	// ControlWaiting are the control messages that wait for the node, ControlDropped
	// those that found too many waiting.
	ControlWaiting int
	ControlDropped uint64
}

// NATSStats of a broker.
type NATSStats struct {
	Health broker.Health
	nats.Stats
}

// Stats returns those of all brokers that are not of this process, the default one
// first. It does not wait for anything.
func (s *Set) Stats() []BrokerStats {
	var list []BrokerStats
	for _, b := range s.brokers {
		switch engine := b.broker.(type) {
		case *redis.Broker:
			r := &RedisStats{Shards: engine.Stats()}
			r.ControlWaiting, r.ControlDropped = engine.ControlStats()
			list = append(list, BrokerStats{Name: b.name, Redis: r})
		case *nats.Broker:
			list = append(list, BrokerStats{Name: b.name, NATS: &NATSStats{engine.Health()[0], engine.Stats()}})
		}
	}
	return list
}
