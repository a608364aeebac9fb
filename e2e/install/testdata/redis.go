package main

import (
	"context"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis"
)

func engine(addresses []string) (broker.Broker, broker.PresenceManager, error) {
	e, err := redis.New(redis.Config{Shards: []redis.Shard{{Addresses: addresses}}})
	if err != nil {
		return nil, nil, err
	}
	return e.Broker(), e.Presence(), e.Connect(context.Background())
}
