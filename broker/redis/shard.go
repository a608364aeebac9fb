package redis

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/broker/redis/internal/losses"
	"github.com/gyrohq/gyro/broker/redis/internal/servers"
)

type shard struct {
	index        int
	client       *servers.Client
	names        format.Names
	timeout      time.Duration
	verification verification
	acked        losses.Acked
	// used: this node has read or published history here, or written presence.
	used   atomic.Bool
	losses atomic.Uint64 // of messages on its receivers
	// rolledBack: since the last verification, there was proof that the data went back.
	rolledBack atomic.Bool
}

func (s *shard) isVerified() bool { return s.verification.generation.Load() == s.client.Generation() }

// revision changes when the server may hold other data than before, and when messages may have got lost.
func (s *shard) revision() uint64 { return s.client.Generation() + s.losses.Load() }

func (s *shard) noteUse() {
	if !s.used.Load() {
		s.used.Store(true)
	}
}

func (s *shard) open(ctx context.Context, cfg *Config) error {
	client, err := servers.Open(ctx, shardOptions(cfg, s.index))
	if err != nil {
		return err
	}
	s.client = client
	s.names = format.Names{Prefix: cfg.Prefix, Cluster: client.Cluster(), Partitions: cfg.ShardedPubSubPartitions}
	if err := s.check(ctx, cfg); err != nil {
		return err
	}
	s.verification.generation.Store(client.Generation()) // nothing was delivered before
	return nil
}

func (s *shard) check(ctx context.Context, cfg *Config) error {
	if cfg.ShardedPubSubPartitions > 0 && !s.client.Cluster() {
		return fmt.Errorf("%s: ShardedPubSubPartitions needs a Cluster", s.client.Name())
	}
	if cfg.PresenceFromReplicas && !s.client.Cluster() && cfg.Shards[s.index].Mode == Detect {
		return fmt.Errorf("%s: PresenceFromReplicas needs Sentinel or Cluster", s.client.Name())
	}
	for _, need := range []struct {
		command, option, since string
		wanted                 bool
	}{
		{"XRANGE", "history", "Redis 5", !cfg.HistoryUseLists},
		{"SPUBLISH", "ShardedPubSubPartitions", "Redis 7", cfg.ShardedPubSubPartitions > 0},
		{"HPEXPIRE", "PresenceHashFieldTTL", "Redis 7.4 or Valkey 9", cfg.PresenceHashFieldTTL},
	} {
		if !need.wanted {
			continue
		}
		if err := s.client.Require(ctx, need.command, need.option, need.since); err != nil {
			return err
		}
	}
	return nil
}
