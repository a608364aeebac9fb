package engine

import (
	"cmp"
	"fmt"

	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/server/internal/config/engines"
	"github.com/gyrohq/gyro/server/internal/services"
)

// redis makes an engine, whose broker or presence manager may remain unused.
func (m *maker) redis(key string, c *engines.PrefixedRedis, b engines.RedisBroker, p engines.RedisPresence, edit ...func(*redis.Config)) (*redis.Engine, error) {
	name := services.AddressKey(&c.Redis)
	shards, err := services.RedisShards(&c.Redis)
	if err != nil {
		return nil, fmt.Errorf("%s.%w", key, err)
	}
	of := redis.Config{
		Shards: shards, Prefix: cmp.Or(c.Prefix, defaultPrefix), StartTimeout: c.StartTimeout, Logger: m.log.With("key", key+"."+name),
		HistoryUseLists: b.HistoryUseLists, HistoryMetaTTL: m.cfg.Channel.HistoryMetaTTL,
		ShardedPubSubPartitions: b.Partitions,
		PresenceTTL:             p.PresenceTTL, PresenceHashFieldTTL: p.PresenceHashFieldTTL,
		PresenceUserMapping: p.PresenceUserMapping, PresenceFromReplicas: p.PresenceFromReplica,
	}
	for _, f := range edit {
		f(&of)
	}
	e, err := redis.New(of)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	m.remember(Server{Key: key, AddressKey: name, Redis: &of}, e)
	return e, nil
}
