// Package engines has the configuration of engines: brokers, presence managers and controllers.
package engines

import (
	"time"

	"github.com/gyrohq/gyro/server/internal/config/material"
)

// Types of engines.
const (
	TypeMemory   = "memory"
	TypeRedis    = "redis"
	TypeNATS     = "nats"
	TypePostgres = "postgres"
)

// Engine provides broker and presence manager.
type Engine struct {
	Type        string      `key:"type" opt:"flag" def:"memory" doc:"Broker and presence manager: memory or redis. memory is for one node alone."`
	Redis       RedisEngine `key:"redis"`
	Concurrency int         `key:"concurrency" def:"512" min:"-1" doc:"Calls that run at the same time at brokers outside of the process: subscribes and history reads together. As many presence reads run at presence managers. Further calls wait up to 10 s, then fail. -1: no limit."`
}

// RedisEngine is broker and presence manager in one Redis.
type RedisEngine struct {
	PrefixedRedis
	RedisBroker
	RedisPresence
}

// Redis is a connection to Redis.
type Redis struct {
	Address            []string      `key:"address" def:"redis://127.0.0.1:6379" opt:"secret" doc:"host:port or a URL. Several items are shards: each has a part of the channels."`
	ClusterAddress     []string      `key:"cluster_address" opt:"secret" doc:"Addresses of a Redis Cluster, host:port separated by commas. Several items are shards. Replaces address."`
	SentinelAddress    []string      `key:"sentinel_address" opt:"secret" doc:"Addresses of Sentinels, host:port separated by commas. Several items are shards. Replaces address."`
	SentinelMasterName string        `key:"sentinel_master_name" doc:"Name of the master in Sentinel. Required with sentinel_address."`
	SentinelUser       string        `key:"sentinel_user" doc:"User at the Sentinels."`
	SentinelPassword   string        `key:"sentinel_password" opt:"secret" doc:"Password at the Sentinels."`
	SentinelClientName string        `key:"sentinel_client_name" doc:"Name of the connections to the Sentinels, as CLIENT LIST shows it."`
	SentinelTLS        material.TLS  `key:"sentinel_tls" doc:"TLS of connections to the Sentinels."`
	ConnectTimeout     time.Duration `key:"connect_timeout" def:"1s" doc:"Longest time to connect."`
	IOTimeout          time.Duration `key:"io_timeout" def:"4s" doc:"Longest time for a command."`
	DB                 int           `key:"db" doc:"Number of the database."`
	User               string        `key:"user" doc:"User at Redis."`
	Password           string        `key:"password" opt:"secret" doc:"Password at Redis."`
	ClientName         string        `key:"client_name" doc:"Name of the connections, as CLIENT LIST shows it."`
	ForceRESP2         bool          `key:"force_resp2" doc:"Speak RESP2 in place of RESP3."`
	TLS                material.TLS  `key:"tls" doc:"TLS of connections to Redis."`
	ReplicaClient      struct {
		Enabled bool `key:"enabled" doc:"Allow reads from replicas."`
	} `key:"replica_client"`
}

// PrefixedRedis is a Redis with a prefix of keys and channels.
type PrefixedRedis struct {
	Prefix string `key:"prefix" def:"centrifugo" doc:"Start of the names of all keys and channels. Nodes of a cluster have the same one; systems that share a Redis have different ones."`
	Redis
	StartTimeout time.Duration `key:"start_timeout" min:"0" doc:"How long a starting server tries to reach Redis before it fails, at most 1h. 0: one attempt."`
}

// RedisBroker has the options of PUB/SUB and history.
type RedisBroker struct {
	HistoryUseLists bool `key:"history_use_lists" doc:"Keep history in lists in place of streams. Maps do not work then."`
	Partitions      int  `key:"sharded_pub_sub_partitions" min:"0" max:"4096" doc:"Number of partitions of sharded PUB/SUB, which needs Redis Cluster 7 or newer. Each has a connection of its own. Names of keys change with it. 0: PUB/SUB without shards."`
}

// RedisPresence has the options of presence.
type RedisPresence struct {
	PresenceTTL          time.Duration `key:"presence_ttl" def:"60s" doc:"How long an entry of presence lives if it is not renewed. At least 1s."`
	PresenceHashFieldTTL bool          `key:"presence_hash_field_ttl" doc:"Let Redis expire each entry of presence by itself, with HPEXPIRE. Needs Redis 7.4 or Valkey 9."`
	PresenceUserMapping  bool          `key:"presence_user_mapping" doc:"Count the clients of each user, so that presence stats need not read all entries."`
	PresenceFromReplica  bool          `key:"presence_read_from_replica" doc:"Read presence from replicas. Needs presence_hash_field_ttl, replica_client.enabled, and Sentinel or Cluster."`
}

// Broker replaces the engine's broker.
type Broker struct {
	Enabled bool   `key:"enabled" opt:"flag" doc:"Use this broker in place of the broker of the section engine."`
	Type    string `key:"type" opt:"flag" def:"memory" enum:"memory|redis|nats|postgres" doc:"Type of the broker."`
	Redis   struct {
		PrefixedRedis
		RedisBroker
	} `key:"redis"`
	NATS     NATS     `key:"nats"`
	Postgres Postgres `key:"postgres"`
}

// NamedBroker is for namespaces that name it.
type NamedBroker struct {
	Name string `key:"name" doc:"Unique name, which broker_name of namespaces refers to."`
	Broker
}

// PresenceManager replaces the engine's presence manager.
type PresenceManager struct {
	Enabled bool   `key:"enabled" opt:"flag" doc:"Use this presence manager in place of the presence manager of the section engine."`
	Type    string `key:"type" opt:"flag" def:"memory" enum:"memory|redis" doc:"Type of the presence manager."`
	Redis   struct {
		PrefixedRedis
		RedisPresence
	} `key:"redis"`
}

// NamedPresenceManager is for namespaces that name it.
type NamedPresenceManager struct {
	Name string `key:"name" doc:"Unique name, which presence_manager_name of namespaces refers to."`
	PresenceManager
}

// NATS is a NATS broker.
type NATS struct {
	URL            string        `key:"url" def:"nats://localhost:4222" opt:"secret" doc:"URL of the server, or URLs of a cluster separated by commas."`
	Prefix         string        `key:"prefix" def:"centrifugo" doc:"Start of the names of all subjects. Nodes of a cluster have the same one."`
	DialTimeout    time.Duration `key:"dial_timeout" def:"1s" doc:"Longest time to connect."`
	WriteTimeout   time.Duration `key:"write_timeout" def:"1s" doc:"Longest time for a write."`
	StartTimeout   time.Duration `key:"start_timeout" min:"0" doc:"How long a starting server tries to reach NATS before it fails, at most 1h. 0: one attempt."`
	TLS            material.TLS  `key:"tls"`
	AllowWildcards bool          `key:"allow_wildcards" doc:"Let clients subscribe to channels with NATS wildcards, * and >, but not as the first token. They get publications of all channels that match and that they could subscribe to by name."`
	RawMode        struct {
		Enabled             bool              `key:"enabled" doc:"Take the name of a channel as the subject, and the payload as the message, so that other programs on NATS can publish and subscribe."`
		ChannelReplacements map[string]string `key:"channel_replacements" doc:"Texts in names of channels, and what replaces them in subjects."`
		Prefix              string            `key:"prefix" doc:"Start of the names of subjects in raw mode."`
	} `key:"raw_mode"`
}

// PostgresServer is a connection to PostgreSQL.
type PostgresServer struct {
	DSN            string        `key:"dsn" opt:"secret" doc:"Address of the primary: a URL, or a list of key=value. Required."`
	TLS            material.TLS  `key:"tls" doc:"TLS, which replaces the TLS settings in dsn, notify_dsn and replica.dsn."`
	TablePrefix    string        `key:"table_prefix" def:"cf" doc:"Start of the names of tables and functions: lower-case letters, digits and underscores, at most 20."`
	UseNotify      bool          `key:"use_notify" doc:"Notify other nodes of new rows with LISTEN/NOTIFY, so that they do not wait for the next poll."`
	NotifyDSN      string        `key:"notify_dsn" opt:"secret" doc:"Address for LISTEN, which does not work through poolers such as PgBouncer in transaction mode. Empty: dsn. Needs use_notify."`
	SkipSchemaInit bool          `key:"skip_schema_init" doc:"Do not create tables at start. The server does not start if they are missing."`
	IOTimeout      time.Duration `key:"io_timeout" def:"10s" doc:"Longest time for an operation, from 100ms to 1h. Centrifugo has no such key."`
	StartTimeout   time.Duration `key:"start_timeout" min:"0" doc:"How long a starting server tries to reach PostgreSQL before it fails, at most 1h. 0: one attempt. Centrifugo has no such key."`
}

// Postgres is a PostgreSQL broker.
type Postgres struct {
	PostgresServer
	PoolSize            int           `key:"pool_size" def:"16" min:"0" max:"10000" doc:"Largest number of connections, at least 2; use_notify needs one more. 0: 16."`
	NumShards           int           `key:"num_shards" def:"8" min:"0" max:"256" doc:"Number of shards, each with a publisher and a delivery worker. All nodes have the same number; change it only while no node runs. 0: 8."`
	CleanupInterval     time.Duration `key:"cleanup_interval" def:"1m" doc:"How often partitions are created and dropped and expired rows are deleted, from 1ms to 24h."`
	IdempotentResultTTL time.Duration `key:"idempotent_result_ttl" def:"5m" doc:"How long the result of a publication with an idempotency key is kept."`
	BinaryData          bool          `key:"binary_data" doc:"Store payloads as BYTEA in place of JSONB. JSONB accepts JSON alone, and changes its white space and the order of its keys."`
	StreamRetention     time.Duration `key:"stream_retention" def:"24h" doc:"How long the position of a stream outlives its last use, if neither the namespace nor channel.history_meta_ttl sets a time."`
	Outbox              struct {
		PollInterval time.Duration `key:"poll_interval" def:"100ms" doc:"How often a node looks for publications of other nodes, from 1ms to 1h."`
		BatchSize    int           `key:"batch_size" def:"1000" min:"0" max:"100000" doc:"Largest number of rows in a read. 0: 1000."`
	} `key:"outbox"`
	Replica struct {
		Enabled bool     `key:"enabled" doc:"Read histories and maps from standbys."`
		DSN     []string `key:"dsn" opt:"secret" doc:"Addresses of the standbys, at most 16: URLs, or lists of key=value. Required if enabled. Each standby answers for a part of the channels. If it fails or is behind, the primary answers."`
	} `key:"replica"`
	BrokerFanout           BrokerFanout `key:"broker_fanout"`
	PartitionLookaheadDays int          `key:"partition_lookahead_days" def:"2" min:"0" max:"60" doc:"Number of days ahead for which partitions exist. 0: 2."`
	PartitionRetentionDays int          `key:"partition_retention_days" def:"7" min:"-1" max:"10000" doc:"Number of days for which publications are kept; history_ttl must not be longer. 0: 7. -1: for ever."`
}

// BrokerFanout carries publications that one node has read from PostgreSQL to the other nodes.
type BrokerFanout struct {
	Enabled       bool          `key:"enabled" doc:"One node reads each shard and sends its rows to the other nodes, which read the database only if rows are missing. dsn, or notify_dsn if it is set, must not lead to a pooler in transaction mode."`
	Type          string        `key:"type" def:"redis" enum:"redis|nats" doc:"System that carries the rows between nodes."`
	ChannelPrefix string        `key:"channel_prefix" def:"gyro_fanout" doc:"Start of the names of channels or subjects. Databases that share the Redis or NATS need different ones."`
	Redis         Redis         `key:"redis"`
	NATS          FanoutNATS    `key:"nats"`
	StartTimeout  time.Duration `key:"start_timeout" min:"0" doc:"How long a starting server tries to reach Redis or NATS before it fails, at most 1h. 0: one attempt. Centrifugo has no such key."`
}

// FanoutNATS is a connection to NATS.
type FanoutNATS struct {
	URL          string        `key:"url" def:"nats://localhost:4222" opt:"secret" doc:"URL of the server, or URLs of a cluster separated by commas."`
	DialTimeout  time.Duration `key:"dial_timeout" def:"1s" doc:"Longest time to connect."`
	WriteTimeout time.Duration `key:"write_timeout" def:"1s" doc:"Longest time for a write."`
	TLS          material.TLS  `key:"tls" doc:"TLS of connections to NATS."`
}

// MapBroker keeps maps.
type MapBroker struct {
	Type  string `key:"type" opt:"flag" def:"memory" enum:"memory|redis|postgres" doc:"Type of the broker."`
	Redis struct {
		PrefixedRedis
		CleanupInterval     time.Duration `key:"cleanup_interval" def:"1s" doc:"How often expired keys are removed. Negative: this node removes none."`
		CleanupBatchSize    int           `key:"cleanup_batch_size" def:"100" idle:"all expired keys are removed in each cycle, in batches of 256" doc:"Number of entries of a channel that a cycle removes."`
		IdempotentResultTTL time.Duration `key:"idempotent_result_ttl" def:"5m" min:"0" doc:"How long the result of a change with an idempotency key is kept."`
		SkipPubSub          bool          `key:"skip_pub_sub" doc:"Change data without publishing the changes."`
	} `key:"redis"`
	Postgres struct {
		Postgres
		TTLCheckInterval time.Duration `key:"ttl_check_interval" def:"1s" doc:"How often expired keys are looked for, from 1ms to 1h."`
	} `key:"postgres"`
	Cache MapCache `key:"cache"`
}

// MapCache keeps the maps of a node's clients in memory.
type MapCache struct {
	Enabled         bool          `key:"enabled" doc:"Answer reads of a map from memory while clients of the node are subscribed to it. No effect with type memory."`
	MaxChannels     int           `key:"max_channels" def:"1000" min:"1" max:"10000000" doc:"Largest number of maps in memory. If there are more, the map goes that was not read for the longest time."`
	MaxBytes        int64         `key:"max_bytes" def:"268435456" min:"1048576" doc:"Largest amount of memory for the maps, in bytes, measured approximately. Centrifugo has no such key."`
	IdleTimeout     time.Duration `key:"idle_timeout" def:"10m" doc:"How long a map without reads stays in memory, from 1s to 24h."`
	SyncInterval    time.Duration `key:"sync_interval" def:"30s" doc:"How often positions in memory are compared with the broker, from 1s to 1h."`
	SyncConcurrency int           `key:"sync_concurrency" def:"64" min:"1" max:"1024" doc:"Number of batches of positions that are read at the same time."`
	SyncBatchSize   int           `key:"sync_batch_size" def:"1000" min:"1" max:"100000" doc:"Number of maps in a batch of positions."`
	LoadTimeout     time.Duration `key:"load_timeout" def:"5s" doc:"Longest time for the first read of a map, and for each read of positions, from 100ms to 1m."`
	StreamSize      int           `key:"stream_size" def:"10000" min:"1" max:"1000000" doc:"Largest number of changes that are kept of each map."`
}

// NamedMapBroker is for namespaces that name it.
type NamedMapBroker struct {
	Name    string `key:"name" doc:"Unique name, which map.broker_name of namespaces refers to."`
	Enabled bool   `key:"enabled" doc:"Use this broker. Namespaces cannot refer to a broker that is not enabled."`
	MapBroker
}

// Controller carries control messages between nodes.
type Controller struct {
	Enabled  bool   `key:"enabled" doc:"Use this controller in place of the broker's."`
	Type     string `key:"type" doc:"Type of the controller. Required; the only one is postgres."`
	Postgres struct {
		PostgresServer
		PoolSize                 int           `key:"pool_size" def:"8" min:"0" max:"10000" doc:"Largest number of connections, at least 2; use_notify needs one more. 0: 8."`
		NumShards                int           `key:"num_shards" def:"1" min:"0" max:"256" doc:"Number of shards, each with a sender. All nodes have the same number. 0: 1."`
		PollInterval             time.Duration `key:"poll_interval" def:"50ms" doc:"How often a node looks for messages, from 1ms to 1h."`
		PartitionRetentionDays   int           `key:"partition_retention_days" def:"1" min:"-1" max:"10000" doc:"Number of days for which messages are kept. 0: 1. -1: for ever."`
		PartitionLookaheadDays   int           `key:"partition_lookahead_days" def:"2" min:"0" max:"60" doc:"Number of days ahead for which partitions exist. 0: 2."`
		PartitionCleanupInterval time.Duration `key:"partition_cleanup_interval" def:"1m" doc:"How often partitions are created and dropped, from 1ms to 24h."`
		BatchSize                int           `key:"batch_size" def:"1000" min:"0" max:"100000" doc:"Largest number of messages in a read. 0: 1000."`
	} `key:"postgres"`
}

// Cached tells whether the cache has an effect.
func (m *MapBroker) Cached() bool { return m.Cache.Enabled && m.Type != TypeMemory }

// Idle names the key of the cache if it has no effect, and says why.
func (m *MapBroker) Idle() (key, why string) {
	if m.Cache.Enabled && !m.Cached() {
		return "cache.enabled", "maps of type memory are in the memory of the node already"
	}
	return "", ""
}
