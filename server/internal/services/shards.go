package services

import (
	"fmt"

	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/address"
	"github.com/gyrohq/gyro/server/internal/config/engines"
)

var modes = map[string]redis.Mode{"cluster_address": redis.Cluster, "sentinel_address": redis.Sentinel, "address": redis.Detect}

// AddressKey is the key of the addresses in use, below the section.
func AddressKey(c *engines.Redis) string {
	_, name := c.Addresses()
	return name
}

// RedisShards returns the shards of a section. Errors name the key below the section.
func RedisShards(c *engines.Redis) ([]redis.Shard, error) {
	base, err := redisShard(c)
	if err != nil {
		return nil, err
	}
	list, name := c.Addresses()
	shards := make([]redis.Shard, len(list))
	for i, item := range list {
		s := base
		if s.Mode = modes[name]; s.Mode == redis.Detect {
			s, err = address.Parse(item, base)
		} else {
			s.Addresses, err = address.ParseList(item)
		}
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", name, i, err)
		}
		shards[i] = s
	}
	return shards, nil
}

func redisShard(c *engines.Redis) (s redis.Shard, err error) {
	s = redis.Shard{
		User: c.User, Password: c.Password, DB: c.DB, ClientName: c.ClientName,
		SentinelMaster: c.SentinelMasterName, SentinelUser: c.SentinelUser,
		SentinelPassword: c.SentinelPassword, SentinelClientName: c.SentinelClientName,
		ConnectTimeout: c.ConnectTimeout, IOTimeout: c.IOTimeout, ForceRESP2: c.ForceRESP2,
		ReplicaReads: c.ReplicaClient.Enabled,
	}
	if s.TLS, err = c.TLS.ClientConfig(); err != nil {
		return s, fmt.Errorf("tls.%w", err)
	}
	if s.SentinelTLS, err = c.SentinelTLS.ClientConfig(); err != nil {
		return s, fmt.Errorf("sentinel_tls.%w", err)
	}
	return s, nil
}
