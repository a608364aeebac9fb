package redis

import (
	"strings"
	"testing"
	"time"
)

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	for mention, c := range map[string]Config{
		"Prefix":                  {Prefix: strings.Repeat("x", 200)},
		"hash tags":               {Prefix: "a{b}"},
		"HistoryMetaTTL":          {HistoryMetaTTL: -1},
		"PresenceTTL":             {PresenceTTL: time.Millisecond},
		"CanaryTimeout":           {CanaryTimeout: time.Second},
		"ShardedPubSubPartitions": {ShardedPubSubPartitions: 5000},
		"needs a Cluster":         {ShardedPubSubPartitions: 5, Shards: []Shard{{Mode: Standalone}}},
		"PresenceHashFieldTTL":    {PresenceFromReplicas: true},
		"ReplicaReads":            {PresenceFromReplicas: true, PresenceHashFieldTTL: true},
		"shard 1: IOTimeout":      {Shards: []Shard{{}, {IOTimeout: 1}}},
		"ConnectTimeout":          {Shards: []Shard{{ConnectTimeout: -1}}},
		"SentinelMaster":          {Shards: []Shard{{Mode: Sentinel}}},
		"DB":                      {Shards: []Shard{{DB: -1}}},
		"database 0":              {Shards: []Shard{{DB: 1, Mode: Cluster}}},
		"unknown Mode":            {Shards: []Shard{{Mode: "x"}}},
		"2 Addresses":             {Shards: []Shard{{Mode: Standalone, Addresses: []string{"a:1", "b:1"}}}},
		"host:port":               {Shards: []Shard{{Addresses: []string{"a"}}}},
		"ClientName":              {Shards: []Shard{{ClientName: "a b"}}},
	} {
		if _, err := c.withDefaults(); err == nil || !strings.Contains(err.Error(), mention) {
			t.Errorf("error %v, want one that tells of %s", err, mention)
		}
	}
	c, err := Config{}.withDefaults()
	if err != nil || c.Prefix != "gyro" || len(c.Shards) != 1 || c.Shards[0].Addresses[0] != DefaultAddress {
		t.Errorf("defaults: %+v, %v", c, err)
	}
}
