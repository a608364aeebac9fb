// Package engines has the sections of a configuration that describe engines: brokers, presence managers and controllers
// in memory, Redis, NATS and PostgreSQL.
package engines

import (
	"time"

	"github.com/gyrohq/gyro/server/internal/config/material"
)

// Types of engines, brokers and presence managers.
const (
	TypeMemory   = "memory"
	TypeRedis    = "redis"
	TypeNATS     = "nats"
	TypePostgres = "postgres"
)

// Engine provides broker and presence manager together.
type Engine struct {
	Type  string      `key:"type" opt:"flag" def:"memory" doc:"memory or redis."`
	Redis RedisEngine `key:"redis"`
	// Concurrency applies to all brokers and presence managers.
	Concurrency int `key:"concurrency" def:"512" min:"-1" doc:"Subscribes and history reads under way at a time at brokers outside of the process, and as many presence reads; further ones wait, 10s at most. -1 for no limit."`
}

// RedisEngine is broker and presence manager in one Redis.
type RedisEngine struct {
	PrefixedRedis
	RedisBroker
	RedisPresence
}

// Redis is a connection to Redis.
type Redis struct {
	Address            []string      `key:"address" def:"redis://127.0.0.1:6379" opt:"secret" doc:"host:port or URL, one per shard."`
	ClusterAddress     []string      `key:"cluster_address" opt:"secret" doc:"Redis Cluster, one item per shard: comma-separated host:port list."`
	SentinelAddress    []string      `key:"sentinel_address" opt:"secret" doc:"Sentinel, one item per shard: comma-separated host:port list."`
	SentinelMasterName string        `key:"sentinel_master_name" doc:"Required with Sentinel."`
	SentinelUser       string        `key:"sentinel_user"`
	SentinelPassword   string        `key:"sentinel_password" opt:"secret"`
	SentinelClientName string        `key:"sentinel_client_name"`
	SentinelTLS        material.TLS  `key:"sentinel_tls"`
	ConnectTimeout     time.Duration `key:"connect_timeout" def:"1s"`
	IOTimeout          time.Duration `key:"io_timeout" def:"4s"`
	DB                 int           `key:"db" doc:"Number of the database."`
	User               string        `key:"user"`
	Password           string        `key:"password" opt:"secret"`
	ClientName         string        `key:"client_name"`
	ForceRESP2         bool          `key:"force_resp2" doc:"Use RESP2."`
	TLS                material.TLS  `key:"tls"`
	ReplicaClient      struct {
		Enabled bool `key:"enabled" doc:"Replicas may be read from."`
	} `key:"replica_client"`
}

// PrefixedRedis is a Redis whose keys and channels share a prefix.
type PrefixedRedis struct {
	Prefix string `key:"prefix" def:"centrifugo" doc:"Prefix of keys and channels."`
	Redis
	StartTimeout time.Duration `key:"start_timeout" min:"0" doc:"How long a starting server tries to reach Redis before it gives up; by default one attempt."`
}

// RedisBroker has the options of PUB/SUB and history in Redis.
type RedisBroker struct {
	HistoryUseLists bool `key:"history_use_lists" doc:"Keep history in lists instead of streams."`
	Partitions      int  `key:"sharded_pub_sub_partitions" min:"0" max:"4096" doc:"Partitions of sharded PUB/SUB (Redis Cluster 7 or newer), each with a connection; key names change. 0: plain PUB/SUB."`
}

// RedisPresence has the options of presence in Redis.
type RedisPresence struct {
	PresenceTTL          time.Duration `key:"presence_ttl" def:"60s" doc:"Lifetime of a presence entry."`
	PresenceHashFieldTTL bool          `key:"presence_hash_field_ttl" doc:"Expire hash fields one by one (Redis 7.4)."`
	PresenceUserMapping  bool          `key:"presence_user_mapping" doc:"Keep users apart, to speed up presence stats."`
	PresenceFromReplica  bool          `key:"presence_read_from_replica" doc:"Read presence from replicas. Needs presence_hash_field_ttl, replica_client.enabled, and Sentinel or Cluster."`
}

// Broker replaces the engine's broker.
type Broker struct {
	Enabled bool   `key:"enabled" opt:"flag"`
	Type    string `key:"type" opt:"flag" def:"memory" enum:"memory|redis|nats|postgres"`
	Redis   struct {
		PrefixedRedis
		RedisBroker
	} `key:"redis"`
	NATS     NATS     `key:"nats"`
	Postgres Postgres `key:"postgres"`
}

// NamedBroker is a further broker, for namespaces that name it.
type NamedBroker struct {
	Name string `key:"name" doc:"Unique name, for broker_name of namespaces."`
	Broker
}

// PresenceManager replaces the engine's presence manager.
type PresenceManager struct {
	Enabled bool   `key:"enabled" opt:"flag"`
	Type    string `key:"type" opt:"flag" def:"memory" enum:"memory|redis"`
	Redis   struct {
		PrefixedRedis
		RedisPresence
	} `key:"redis"`
}

// NamedPresenceManager is a further presence manager, for namespaces that name it.
type NamedPresenceManager struct {
	Name string `key:"name" doc:"Unique name, for presence_manager_name of namespaces."`
	PresenceManager
}

// NATS is a NATS broker.
type NATS struct {
	URL            string        `key:"url" def:"nats://localhost:4222" opt:"secret"`
	Prefix         string        `key:"prefix" def:"centrifugo" doc:"Prefix of subjects."`
	DialTimeout    time.Duration `key:"dial_timeout" def:"1s"`
	WriteTimeout   time.Duration `key:"write_timeout" def:"1s"`
	StartTimeout   time.Duration `key:"start_timeout" min:"0" doc:"How long a starting server tries to reach NATS before it gives up; by default one attempt."`
	TLS            material.TLS  `key:"tls"`
	AllowWildcards bool          `key:"allow_wildcards" doc:"Channels may have NATS wildcards, but not begin with one. Such a subscription gets what could be subscribed to by name."`
	RawMode        struct {
		Enabled             bool              `key:"enabled" doc:"Use subjects and payloads as they are."`
		ChannelReplacements map[string]string `key:"channel_replacements" doc:"Substrings of channels and what stands for them in subjects."`
		Prefix              string            `key:"prefix" doc:"Prefix of subjects."`
	} `key:"raw_mode"`
}

// PostgresServer is a connection to PostgreSQL.
type PostgresServer struct {
	DSN            string        `key:"dsn" opt:"secret" doc:"URL, or list of key=value, of the primary; required."`
	TLS            material.TLS  `key:"tls" doc:"Replaces what dsn says of TLS, also for notify_dsn and replicas."`
	TablePrefix    string        `key:"table_prefix" def:"cf" doc:"What the names of tables and functions begin with: lower-case letters, digits and underscores, at most 20."`
	UseNotify      bool          `key:"use_notify" doc:"Wake up by LISTEN/NOTIFY."`
	NotifyDSN      string        `key:"notify_dsn" opt:"secret" doc:"Direct DSN for LISTEN, which poolers such as PgBouncer in transaction mode cannot carry; by default dsn. Needs use_notify."`
	SkipSchemaInit bool          `key:"skip_schema_init" doc:"Do not create tables at start; the server does not start unless they are there."`
	IOTimeout      time.Duration `key:"io_timeout" def:"10s" doc:"Bounds each operation; from 100ms to 1h. Gyro's own key."`
	StartTimeout   time.Duration `key:"start_timeout" min:"0" doc:"How long a starting server tries to reach PostgreSQL before it gives up; by default one attempt. Gyro's own key."`
}

// Postgres is a PostgreSQL broker.
type Postgres struct {
	PostgresServer
	PoolSize            int           `key:"pool_size" def:"16" min:"0" max:"10000" doc:"Connections at most; use_notify needs one more; 0 for the default."`
	NumShards           int           `key:"num_shards" def:"8" min:"0" max:"256" doc:"Parallel publishers and delivery workers. All nodes have the same number; it may only be changed while none runs; 0 for the default."`
	CleanupInterval     time.Duration `key:"cleanup_interval" def:"1m" doc:"Period in which partitions are made and dropped, and expired rows deleted; at most 24h."`
	IdempotentResultTTL time.Duration `key:"idempotent_result_ttl" def:"5m" doc:"How long the result of a publication with an idempotency key is kept."`
	BinaryData          bool          `key:"binary_data" doc:"BYTEA instead of JSONB. JSONB changes white space and the order of keys, and refuses what is not JSON."`
	StreamRetention     time.Duration `key:"stream_retention" def:"24h" doc:"How long the position of a stream outlives its last use if channel.history_meta_ttl does not say."`
	Outbox              struct {
		PollInterval time.Duration `key:"poll_interval" def:"100ms" doc:"How often a node looks for what others have published; at most 1h."`
		BatchSize    int           `key:"batch_size" def:"1000" min:"0" max:"100000" doc:"Rows that are read at a time; 0 for the default."`
	} `key:"outbox"`
	Replica struct {
		Enabled bool     `key:"enabled" doc:"Standbys may answer reads of history and of maps."`
		DSN     []string `key:"dsn" opt:"secret" doc:"URL, or list of key=value, of each standby, 16 at most; required when enabled. Each has its share of the channels; what a standby lacks, or does not answer, the primary answers."`
	} `key:"replica"`
	BrokerFanout           BrokerFanout `key:"broker_fanout"`
	PartitionLookaheadDays int          `key:"partition_lookahead_days" def:"2" min:"0" max:"60" doc:"For how many further days there are partitions; 0 for the default."`
	PartitionRetentionDays int          `key:"partition_retention_days" def:"7" min:"-1" max:"10000" doc:"Days for which publications are kept; history_ttl must not be longer. 0 for 7, -1 for ever."`
}

// BrokerFanout carries the publications that one node has read from a PostgreSQL broker to the other nodes.
type BrokerFanout struct {
	Enabled       bool          `key:"enabled" doc:"One node reads each shard, and sends the rows to the others, which read the database only if some are missing. dsn, or notify_dsn if there is one, must not be a pooler in transaction mode."`
	Type          string        `key:"type" def:"redis" enum:"redis|nats"`
	ChannelPrefix string        `key:"channel_prefix" def:"gyro_fanout" doc:"Prefix of channels or subjects. Databases that share the Redis or NATS need different ones."`
	Redis         Redis         `key:"redis"`
	NATS          FanoutNATS    `key:"nats"`
	StartTimeout  time.Duration `key:"start_timeout" min:"0" doc:"How long a starting server tries to reach Redis or NATS before it gives up; by default one attempt. Gyro's own key."`
}

// FanoutNATS is a connection to NATS.
type FanoutNATS struct {
	URL          string        `key:"url" def:"nats://localhost:4222" opt:"secret"`
	DialTimeout  time.Duration `key:"dial_timeout" def:"1s"`
	WriteTimeout time.Duration `key:"write_timeout" def:"1s"`
	TLS          material.TLS  `key:"tls"`
}

// MapBroker keeps the state of map channels.
type MapBroker struct {
	Type  string `key:"type" opt:"flag" def:"memory" enum:"memory|redis|postgres"`
	Redis struct {
		PrefixedRedis
		CleanupInterval     time.Duration `key:"cleanup_interval" def:"1s" doc:"Period of removals of expired keys; negative for none."`
		CleanupBatchSize    int           `key:"cleanup_batch_size" def:"100" idle:"all expired keys are removed in each cycle, in batches of 256" doc:"Entries per channel and cycle."`
		IdempotentResultTTL time.Duration `key:"idempotent_result_ttl" def:"5m" min:"0" doc:"How long the result of a change with an idempotency key is kept."`
		SkipPubSub          bool          `key:"skip_pub_sub" doc:"Update data without publishing."`
	} `key:"redis"`
	Postgres struct {
		Postgres
		TTLCheckInterval time.Duration `key:"ttl_check_interval" def:"1s" doc:"Period of the check for expired keys; at most 1h."`
	} `key:"postgres"`
	Cache MapCache `key:"cache"`
}

// MapCache keeps the maps that a node's clients follow in the memory of the node.
type MapCache struct {
	Enabled         bool          `key:"enabled" doc:"Answer reads of maps from the memory of the node while clients of the node are subscribed to them. No effect with type memory."`
	MaxChannels     int           `key:"max_channels" def:"1000" min:"1" max:"10000000" doc:"Maps that are kept; those that were not read for the longest time go."`
	MaxBytes        int64         `key:"max_bytes" def:"268435456" min:"1048576" doc:"Memory that they may take, about. Gyro's own key."`
	IdleTimeout     time.Duration `key:"idle_timeout" def:"10m" doc:"How long a map is kept that nobody reads; from 1s to 24h."`
	SyncInterval    time.Duration `key:"sync_interval" def:"30s" doc:"Period of the comparison with the positions at the broker; from 1s to 1h."`
	SyncConcurrency int           `key:"sync_concurrency" def:"64" min:"1" max:"1024" doc:"Batches of positions that are read at a time."`
	SyncBatchSize   int           `key:"sync_batch_size" def:"1000" min:"1" max:"100000" doc:"Maps whose positions are read at once."`
	LoadTimeout     time.Duration `key:"load_timeout" def:"5s" doc:"Bounds the first read of a map, and each read of positions; from 100ms to 1m."`
	StreamSize      int           `key:"stream_size" def:"10000" min:"1" max:"1000000" doc:"Changes of a map that are kept."`
}

// NamedMapBroker is a further broker of maps, for namespaces that name it.
type NamedMapBroker struct {
	Name    string `key:"name" doc:"Unique name, for map.broker_name of namespaces."`
	Enabled bool   `key:"enabled"`
	MapBroker
}

// Controller carries control messages between nodes.
type Controller struct {
	Enabled  bool   `key:"enabled" doc:"Use this controller instead of the broker's."`
	Type     string `key:"type" doc:"postgres; must be set."`
	Postgres struct {
		PostgresServer
		PoolSize                 int           `key:"pool_size" def:"8" min:"0" max:"10000" doc:"Connections at most; use_notify needs one more; 0 for the default."`
		NumShards                int           `key:"num_shards" def:"1" min:"0" max:"256" doc:"Parallel senders. All nodes have the same number; 0 for the default."`
		PollInterval             time.Duration `key:"poll_interval" def:"50ms" doc:"How often a node looks for messages; at most 1h."`
		PartitionRetentionDays   int           `key:"partition_retention_days" def:"1" min:"-1" max:"10000" doc:"Days for which messages are kept. 0 for 1, -1 for ever."`
		PartitionLookaheadDays   int           `key:"partition_lookahead_days" def:"2" min:"0" max:"60" doc:"For how many further days there are partitions; 0 for the default."`
		PartitionCleanupInterval time.Duration `key:"partition_cleanup_interval" def:"1m" doc:"Period in which partitions are made and dropped; at most 24h."`
		BatchSize                int           `key:"batch_size" def:"1000" min:"0" max:"100000" doc:"Messages that are read at a time; 0 for the default."`
	} `key:"postgres"`
}

// Cached tells whether the cache is in use.
func (m *MapBroker) Cached() bool { return m.Cache.Enabled && m.Type != TypeMemory }

// Idle names the key of the cache if it has no effect, and says why.
func (m *MapBroker) Idle() (key, why string) {
	if m.Cache.Enabled && !m.Cached() {
		return "cache.enabled", "maps of type memory are in the memory of the node already"
	}
	return "", ""
}
