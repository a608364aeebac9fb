package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/gyrohq/gyro/broker/redis/internal/servers"
)

// Mode says how the servers of a shard are organised.
type Mode string

// Modes of a shard.
const (
	// Detect asks whether the server is a node of a Cluster; otherwise it is standalone. Several addresses mean Cluster,
	// a SentinelMaster means Sentinel.
	Detect     Mode = ""
	Standalone Mode = "standalone"
	Sentinel   Mode = "sentinel"
	Cluster    Mode = "cluster"
)

// Defaults and limits of the configuration.
const (
	DefaultAddress        = "127.0.0.1:6379"
	DefaultPrefix         = "gyro"
	DefaultConnectTimeout = time.Second
	DefaultIOTimeout      = 4 * time.Second
	// DefaultFlushDelay lowers the cost of a publish from 13 to 5 us with 64 publishers on one CPU; 20 us save less,
	// 100 us not more.
	DefaultFlushDelay        = 50 * time.Microsecond
	DefaultHistoryMetaTTL    = 30 * 24 * time.Hour
	DefaultPresenceTTL       = time.Minute
	DefaultMapExpiryInterval = time.Second
	DefaultIdempotencyTTL    = 300 * time.Second
	DefaultCanaryInterval    = time.Second
	DefaultCanaryTimeout     = 3 * time.Second

	maxShards      = 1024
	maxAddresses   = 256
	maxPrefix      = 128
	maxPartitions  = 4096
	maxTimeout     = 10 * time.Minute
	minIOTimeout   = 50 * time.Millisecond
	minPresenceTTL = 100 * time.Millisecond
)

// Shard is one of the servers, Sentinel groups or Clusters that channels are spread over.
type Shard struct {
	// Addresses are host:port of the server, of Sentinels or of some Cluster nodes, or unix:///path. Default:
	// 127.0.0.1:6379.
	Addresses []string
	// Mode of the shard. Default: Detect.
	Mode Mode

	User     string // ACL user
	Password string
	// DB is the number of the database. A Cluster has only 0.
	DB int
	// ClientName must not contain spaces.
	ClientName string
	// TLS turns on TLS. An empty ServerName is the host of the address.
	TLS *tls.Config

	// SentinelMaster is the name of the primary; necessary with Sentinel.
	SentinelMaster     string
	SentinelUser       string
	SentinelPassword   string
	SentinelClientName string
	SentinelTLS        *tls.Config

	// ConnectTimeout bounds the connection to one server. Default 1 s.
	ConnectTimeout time.Duration
	// IOTimeout bounds every operation, from 50 ms to 10 minutes. Default 4 s.
	IOTimeout time.Duration
	// Dial, unless nil, makes the connections to servers and Sentinels, as DialContext of a net.Dialer does. TLS is put on
	// top of them.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// FlushDelay is how long a write waits for more commands while others are in flight. Default 50 us; negative: it does
	// not wait.
	FlushDelay time.Duration
	// ForceRESP2 never asks for protocol version 3.
	ForceRESP2 bool
	// ReplicaReads allows Config.PresenceFromReplicas; it does nothing by itself.
	ReplicaReads bool
}

// Config of the engine. The zero value is one Redis on this machine. Nodes that share channels need the same Shards in
// the same order, Prefix and modes.
type Config struct {
	// Shards that channels are spread over by a consistent hash of their names: with one more shard, 1/n of the channels
	// move, and their streams begin anew. At most 1,024. Default: one Shard with its defaults.
	Shards []Shard
	// Prefix of all keys and channels, at most 128 bytes. Default "gyro". The gyro server and Centrifugo have
	// "centrifugo".
	Prefix string

	// HistoryUseLists keeps history in LISTs instead of STREAMs. There are no maps then.
	HistoryUseLists bool
	// HistoryMetaTTL is how long a stream's top offset and epoch outlive their last use when a call names no time.
	// Default 30 days.
	HistoryMetaTTL time.Duration

	// IdempotencyTTL is how long results of idempotency keys are kept when a call names no time. Default 300 s.
	IdempotencyTTL time.Duration

	// MapExpiryInterval is how often the engine looks for expired entries of maps, once it has used a map. Default 1 s;
	// negative: other nodes look for them.
	MapExpiryInterval time.Duration

	// PresenceTTL is how long a presence entry lives without being renewed. Default 60 s, at least 100 ms.
	PresenceTTL time.Duration
	// PresenceHashFieldTTL gives each entry a time to live of its own by HPEXPIRE, of Redis 7.4 or Valkey 9.
	PresenceHashFieldTTL bool
	// PresenceFromReplicas reads presence from replicas. It needs PresenceHashFieldTTL, as reading writes otherwise, and
	// ReplicaReads of all shards, which must be Sentinel or Cluster.
	PresenceFromReplicas bool
	// PresenceUserMapping counts the clients of each user, so that Stats does not read all entries.
	PresenceUserMapping bool
	// PresenceUserMappingFor, unless nil, takes the place of PresenceUserMapping. Any goroutine may call it. It must
	// give the same answer on all nodes.
	PresenceUserMappingFor func(channel string) bool

	// ShardedPubSubPartitions > 0 publishes by SPUBLISH of Redis 7, so that a Cluster does not carry each publication to
	// all of its nodes. Channels are spread over that many partitions, at most 4,096, each with a hash tag and a
	// connection of its own. It needs Cluster shards.
	ShardedPubSubPartitions int
	// SkipPubSub keeps streams without delivering anything: Subscribe fails.
	SkipPubSub bool

	// StartTimeout is how long Run and Connect try again when Redis cannot be reached. Default 0: one attempt.
	StartTimeout time.Duration
	// CanaryInterval is how often the engine checks that each shard delivers. It connects again after CanaryTimeout
	// without a delivery. Default 1 s and 3 s.
	CanaryInterval time.Duration
	CanaryTimeout  time.Duration

	// Logger: default slog.Default().
	Logger *slog.Logger
}

// withDefaults also checks the configuration. Errors name the field.
func (c Config) withDefaults() (Config, error) {
	if len(c.Shards) == 0 {
		c.Shards = []Shard{{}}
	}
	if len(c.Shards) > maxShards {
		return c, fmt.Errorf("redis: %d shards, at most %d", len(c.Shards), maxShards)
	}
	shards := make([]Shard, len(c.Shards))
	for i, s := range c.Shards {
		var err error
		if shards[i], err = s.withDefaults(); err != nil {
			return c, fmt.Errorf("redis: shard %d: %w", i, err)
		}
	}
	c.Shards = shards
	c.Prefix = cmp.Or(c.Prefix, DefaultPrefix)
	if len(c.Prefix) > maxPrefix {
		return c, fmt.Errorf("redis: Prefix has %d bytes, at most %d", len(c.Prefix), maxPrefix)
	}
	if strings.ContainsAny(c.Prefix, "{}") {
		return c, errors.New("redis: Prefix must not contain { or }, which mark hash tags")
	}
	for _, d := range []struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}{
		{"HistoryMetaTTL", &c.HistoryMetaTTL, DefaultHistoryMetaTTL},
		{"PresenceTTL", &c.PresenceTTL, DefaultPresenceTTL},
		{"IdempotencyTTL", &c.IdempotencyTTL, DefaultIdempotencyTTL},
		{"CanaryInterval", &c.CanaryInterval, DefaultCanaryInterval},
		{"CanaryTimeout", &c.CanaryTimeout, DefaultCanaryTimeout},
		{"StartTimeout", &c.StartTimeout, 0},
	} {
		if *d.value < 0 {
			return c, fmt.Errorf("redis: %s is %v: it must not be negative", d.name, *d.value)
		}
		*d.value = cmp.Or(*d.value, d.standard)
	}
	c.MapExpiryInterval = cmp.Or(c.MapExpiryInterval, DefaultMapExpiryInterval)
	if c.PresenceTTL < minPresenceTTL {
		return c, fmt.Errorf("redis: PresenceTTL is %v, at least %v", c.PresenceTTL, minPresenceTTL)
	}
	if c.CanaryTimeout <= c.CanaryInterval {
		return c, fmt.Errorf("redis: CanaryTimeout is %v: it must be longer than CanaryInterval, %v", c.CanaryTimeout, c.CanaryInterval)
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c, c.checkModes()
}

func (c *Config) checkModes() error {
	if n := c.ShardedPubSubPartitions; n < 0 || n > maxPartitions {
		return fmt.Errorf("redis: ShardedPubSubPartitions is %d, at least 0 and at most %d", n, maxPartitions)
	}
	if c.PresenceFromReplicas && !c.PresenceHashFieldTTL {
		return errors.New("redis: PresenceFromReplicas needs PresenceHashFieldTTL: otherwise reading presence writes")
	}
	for i := range c.Shards {
		s := &c.Shards[i]
		if c.ShardedPubSubPartitions > 0 && (s.Mode == Standalone || s.Mode == Sentinel) {
			return fmt.Errorf("redis: shard %d: ShardedPubSubPartitions needs a Cluster, and this is %s", i, s.Mode)
		}
		if c.PresenceFromReplicas && (!s.ReplicaReads || s.Mode == Standalone) {
			return fmt.Errorf("redis: shard %d: PresenceFromReplicas needs ReplicaReads, and Sentinel or Cluster", i)
		}
	}
	return nil
}

func (s Shard) withDefaults() (Shard, error) {
	s.ConnectTimeout = cmp.Or(s.ConnectTimeout, DefaultConnectTimeout)
	s.IOTimeout = cmp.Or(s.IOTimeout, DefaultIOTimeout)
	s.FlushDelay = cmp.Or(s.FlushDelay, DefaultFlushDelay)
	if s.ConnectTimeout < 0 || s.ConnectTimeout > maxTimeout {
		return s, fmt.Errorf("ConnectTimeout is %v, more than 0 and at most %v", s.ConnectTimeout, maxTimeout)
	}
	if s.IOTimeout < minIOTimeout || s.IOTimeout > maxTimeout {
		return s, fmt.Errorf("IOTimeout is %v, at least %v and at most %v", s.IOTimeout, minIOTimeout, maxTimeout)
	}
	if len(s.Addresses) == 0 {
		s.Addresses = []string{DefaultAddress}
	}
	if len(s.Addresses) > maxAddresses {
		return s, fmt.Errorf("%d Addresses, at most %d", len(s.Addresses), maxAddresses)
	}
	for _, address := range s.Addresses {
		if err := servers.CheckAddress(address); err != nil {
			return s, err
		}
	}
	if strings.ContainsAny(s.ClientName, " \n\r") {
		return s, errors.New("ClientName must not contain spaces")
	}
	if s.DB < 0 {
		return s, fmt.Errorf("DB is %d: it must not be negative", s.DB)
	}
	return s.checkMode()
}

func (s Shard) checkMode() (Shard, error) {
	if s.Mode == Detect && s.SentinelMaster != "" {
		s.Mode = Sentinel
	}
	if s.Mode == Detect && len(s.Addresses) > 1 {
		s.Mode = Cluster
	}
	switch s.Mode {
	case Detect:
	case Standalone:
		if len(s.Addresses) > 1 {
			return s, fmt.Errorf("%d Addresses of a standalone server", len(s.Addresses))
		}
	case Sentinel:
		if s.SentinelMaster == "" {
			return s, errors.New("SentinelMaster is missing")
		}
	case Cluster:
		if s.DB != 0 {
			return s, fmt.Errorf("DB is %d: a Cluster has database 0 alone", s.DB)
		}
	default:
		return s, fmt.Errorf("unknown Mode %q", s.Mode)
	}
	return s, nil
}
