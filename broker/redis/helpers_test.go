package redis_test

import (
	"testing"

	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
)

func standalone(s *redistest.Server) redis.Shard {
	return redis.Shard{Addresses: []string{s.Addr()}, Password: s.Password()}
}

func newEngine(t testing.TB, cfg redis.Config) *redis.Engine {
	t.Helper()
	engine, err := redis.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}
