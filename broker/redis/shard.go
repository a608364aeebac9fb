package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker/redis/internal/conn"
)

// shard is one Redis of those that channels are spread over.
type shard struct {
	index   int
	client  *conn.Client
	names   names
	timeout time.Duration
	settled settled
}

// openShard connects and checks what the shard can do.
func openShard(ctx context.Context, cfg *Config, i int) (*shard, error) {
	client, err := conn.Open(ctx, shardOptions(cfg, i))
	if err != nil {
		return nil, err
	}
	s := &shard{index: i, client: client, timeout: cfg.Shards[i].IOTimeout}
	s.names = names{prefix: cfg.Prefix, cluster: client.Cluster(), partitions: cfg.ShardedPubSubPartitions}
	if err := s.check(ctx, cfg); err != nil {
		client.Close()
		return nil, err
	}
	s.settled.generation.Store(client.Generation()) // nothing was delivered before
	return s, nil
}

// missingCommand tells that a server is too old for the configuration.
type missingCommand struct{ shard, command, option, since string }

func (m *missingCommand) Error() string {
	return fmt.Sprintf("%s does not know %s, which %s needs: that takes %s", m.shard, m.command, m.option, m.since)
}

// check looks for the commands that the configuration needs.
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
		info, err := s.client.Do(ctx, s.client.B().Arbitrary("COMMAND", "INFO", need.command).Build()).ToArray()
		if err != nil {
			return s.client.Explain(err)
		}
		if len(info) == 0 || info[0].IsNil() {
			return &missingCommand{s.client.Name(), need.command, need.option, need.since}
		}
	}
	return nil
}

// run does a call and explains its error.
func (s *shard) run(ctx context.Context, c *call) (rueidis.RedisResult, error) {
	result := s.client.Do(ctx, c.command(s.client.B(), false))
	if isUnknownScript(result.Error()) {
		result = s.client.Do(ctx, c.command(s.client.B(), true))
	}
	if err := result.Error(); err != nil {
		return result, s.client.Explain(err)
	}
	return result, nil
}

// runAll does calls in as few round trips as may be, at most conn.MaxPipeline of
// them. cmds is scratch space, which is returned for further use.
func (s *shard) runAll(ctx context.Context, calls []call, cmds []rueidis.Completed) ([]rueidis.RedisResult, []rueidis.Completed) {
	cmds = cmds[:0]
	for i := range calls {
		cmds = append(cmds, calls[i].command(s.client.B(), false))
	}
	results := s.client.DoMulti(ctx, cmds)
	var again []int
	for i := range results {
		if results[i].NonRedisError() != nil {
			cmds = nil // still used by the connection, perhaps
			continue
		}
		if isUnknownScript(results[i].Error()) {
			again = append(again, i)
		}
	}
	if len(again) == 0 {
		return results, cmds
	}
	// The scripts were flushed, or never sent: now with their texts, in order.
	var whole []rueidis.Completed
	for _, i := range again {
		whole = append(whole, calls[i].command(s.client.B(), true))
	}
	for k, result := range s.client.DoMulti(ctx, whole) {
		results[again[k]] = result
	}
	return results, cmds
}

// explainer explains errors of many results, most of which have the same cause.
type explainer struct {
	shard     *shard
	err, said error
}

func (e *explainer) explain(err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, e.err) || e.err == nil {
		e.err, e.said = err, e.shard.client.Explain(err)
	}
	return e.said
}
