package services

import (
	"fmt"

	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/address"
	"github.com/gyrohq/gyro/server/internal/config/engines"
)

// addresses returns the list of addresses in use and its key. Addresses of clusters come before addresses of Sentinels,
// and these before plain ones.
func addresses(c *engines.Redis) (list []string, name string, mode redis.Mode) {
	switch {
	case len(c.ClusterAddress) > 0:
		return c.ClusterAddress, "cluster_address", redis.Cluster
	case len(c.SentinelAddress) > 0:
		return c.SentinelAddress, "sentinel_address", redis.Sentinel
	}
	return c.Address, "address", redis.Detect
}

// AddressKey is the key below a section that has the addresses in use.
func AddressKey(c *engines.Redis) string {
	_, name, _ := addresses(c)
	return name
}

// RedisShards returns the shards that the addresses of a section describe. Errors name the key.
func RedisShards(key string, c *engines.Redis) ([]redis.Shard, error) {
	base, err := redisShard(key, c)
	if err != nil {
		return nil, err
	}
	list, name, mode := addresses(c)
	shards := make([]redis.Shard, len(list))
	for i, item := range list {
		s := base
		if mode == redis.Detect {
			s, err = address.Parse(item, base)
		} else {
			s.Mode = mode
			s.Addresses, err = address.ParseList(item)
		}
		if err != nil {
			return nil, fmt.Errorf("%s.%s[%d]: %w", key, name, i, err)
		}
		shards[i] = s
	}
	return shards, nil
}

// redisShard returns the common settings of all shards of a section.
func redisShard(key string, c *engines.Redis) (s redis.Shard, err error) {
	s = redis.Shard{
		User: c.User, Password: c.Password, DB: c.DB, ClientName: c.ClientName,
		SentinelMaster: c.SentinelMasterName, SentinelUser: c.SentinelUser,
		SentinelPassword: c.SentinelPassword, SentinelClientName: c.SentinelClientName,
		ConnectTimeout: c.ConnectTimeout, IOTimeout: c.IOTimeout, ForceRESP2: c.ForceRESP2,
		ReplicaReads: c.ReplicaClient.Enabled,
	}
	if s.TLS, err = c.TLS.ClientConfig(); err != nil {
		return s, fmt.Errorf("%s.tls.%w", key, err)
	}
	if s.SentinelTLS, err = c.SentinelTLS.ClientConfig(); err != nil {
		return s, fmt.Errorf("%s.sentinel_tls.%w", key, err)
	}
	return s, nil
}
