package engines

import (
	"slices"
	"time"

	"github.com/gyrohq/gyro/server/internal/config/internal/problem"
)

// UserStatus keeps the status of users.
type UserStatus struct {
	Enabled        bool          `key:"enabled" doc:"Keep when users were active and online: for the RPC method update_user_status of clients, and for update_user_status, get_user_status and delete_user_status of the server API."`
	StorageType    string        `key:"storage_type" enum:"|memory|redis" doc:"Storage of the status. memory is for one node alone. Empty: redis if the section below names a Redis or engine.type is redis, else memory."`
	Redis          StatusRedis   `key:"redis" doc:"Redis that all nodes share, with the keys of engine.redis."`
	ExpireInterval time.Duration `key:"expire_interval" def:"720h" min:"1m" doc:"How long the status of a user is kept after its last change."`
}

// StatusRedis is a Redis of its own, or the engine's.
type StatusRedis struct {
	PrefixedRedis
	ReuseFromEngine bool `key:"reuse_from_engine" doc:"Use the Redis of engine.redis with its prefix. The other keys of this section have no effect then."`
}

// DefaultRedis is the default of Redis.Address.
const DefaultRedis = "redis://127.0.0.1:6379"

// InRedis tells whether the status is in Redis, and returns that section.
func (u *UserStatus) InRedis(engine *Engine) (in bool, section string, of *PrefixedRedis) {
	own := !slices.Equal(u.Redis.Address, []string{DefaultRedis}) || len(u.Redis.ClusterAddress) > 0 || len(u.Redis.SentinelAddress) > 0
	switch {
	case u.StorageType == TypeMemory || u.StorageType == "" && !own && !u.Redis.ReuseFromEngine && engine.Type != TypeRedis:
		return false, "", nil
	case u.Redis.ReuseFromEngine || u.StorageType == "" && !own:
		return true, "engine.redis", &engine.Redis.PrefixedRedis
	}
	return true, "user_status.redis", &u.Redis.PrefixedRedis
}

// Check tests the section. several: there may be other nodes.
func (u *UserStatus) Check(p *problem.List, engine *Engine, several bool) {
	if !u.Enabled {
		return
	}
	in, section, of := u.InRedis(engine)
	switch {
	case u.Redis.ReuseFromEngine && (engine.Type != TypeRedis || u.StorageType == TypeMemory):
		p.Add("user_status.redis.reuse_from_engine", "engine.type is not redis, or user_status.storage_type is memory")
	case in && section != "engine.redis":
		of.Check(p, section)
	case !in && u.StorageType == "" && several:
		p.Add("user_status.storage_type", "is required, as the broker or the controller joins several nodes, which do not share memory: redis, or memory if this is the only node")
	}
}
