package postgres

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"
)

// Defaults and limits of Config.
const (
	DefaultPoolSize            = 16
	DefaultNumShards           = 8
	DefaultTablePrefix         = "cf"
	DefaultPollInterval        = 100 * time.Millisecond
	DefaultBatchSize           = 1000
	DefaultCleanupInterval     = time.Minute
	DefaultIdempotentResultTTL = 5 * time.Minute
	DefaultHistoryMetaTTL      = 30 * 24 * time.Hour
	DefaultPartitionLookahead  = 2
	DefaultPartitionRetention  = 7
	DefaultMapExpiryInterval   = time.Second
	DefaultTimeout             = 10 * time.Second
	DefaultControlPollInterval = 50 * time.Millisecond
	DefaultControlNumShards    = 1
	DefaultControlRetention    = 1
	DefaultFanoutInterval      = 5 * time.Second

	minPoolSize  = 2
	maxPoolSize  = 10_000
	maxNumShards = 256
	maxPrefix    = 20
	minInterval  = time.Millisecond
	maxInterval  = time.Hour
	maxBatchSize = 100_000
	maxDays      = 10_000
	maxLookahead = 60
	minTimeout   = 100 * time.Millisecond
	maxReplicas  = 16
	maxPatience  = time.Second
)

// Config of the engine. DSN is needed. Nodes that share channels have the same NumShards, BinaryData and TablePrefix.
type Config struct {
	// DSN of the primary: a URL, or a list of key=value. What it lacks comes from the environment and the files that
	// libpq reads.
	DSN string
	// TLS replaces the TLS settings of the DSN, for all connections. If its ServerName is empty, the host is used.
	TLS *tls.Config
	// PoolSize is the most connections, from 2 to 10,000; notifications need one more. Default 16.
	PoolSize int
	// NumShards is how many publishers can write, and how many readers read, at a time. A channel is in one shard. It
	// may only be changed while no node runs. At most 256. Default 8.
	NumShards int
	// BinaryData stores payloads as they are. Otherwise they are JSONB, which PostgreSQL normalizes (white space, order
	// of keys); publications that are not JSON are refused with protocol.ErrorBadRequest.
	BinaryData bool
	// TablePrefix begins the names of tables and functions: lower-case letters, digits and underscores, at most 20. A
	// trailing underscore is left out. Default "cf".
	TablePrefix string
	// SkipSchemaInit leaves the making of tables, functions and shards to others: Run fails unless they are there.
	SkipSchemaInit bool

	// PollInterval is how often the node looks for what others have published, from 1 ms to 1 hour. Default 100 ms.
	PollInterval time.Duration
	// BatchSize is the most rows that are read at a time, up to 100,000. Default 1,000.
	BatchSize int
	// With UseNotify, the node looks when it is notified. Publishers notify as soon as one node has had UseNotify;
	// PostgreSQL commits transactions that notify one after the other.
	UseNotify bool
	// NotifyDSN is for the connections that listen or lead a Fanout, which a pooler such as PgBouncer in transaction
	// mode cannot carry. Default: DSN.
	NotifyDSN string

	// HistoryMetaTTL is how long a stream's top offset and epoch outlive its last use when a call names no time; in fact
	// up to a quarter longer. Default 30 days.
	HistoryMetaTTL time.Duration
	// IdempotentResultTTL is how long idempotency keys are known when a call names no time. Default 5 minutes.
	IdempotentResultTTL time.Duration
	// CleanupInterval is how often partitions are made and dropped, and expired rows deleted. Default 1 minute.
	CleanupInterval time.Duration
	// PartitionLookaheadDays is for how many further days there are partitions, up to 60. Default 2.
	PartitionLookaheadDays int
	// PartitionRetentionDays is for how many days publications are kept at most, whatever their TTL. -1: for ever.
	// Default 7.
	PartitionRetentionDays int
	// MapExpiryInterval is the time between two looks for expired entries of maps. Default 1 s.
	MapExpiryInterval time.Duration

	// Control messages have their own table. ControlPollInterval is as PollInterval, default 50 ms; ControlNumShards as
	// NumShards, default 1; ControlRetentionDays as PartitionRetentionDays, default 1.
	ControlPollInterval  time.Duration
	ControlNumShards     int
	ControlRetentionDays int

	// Replicas are the DSNs of servers that replicate the primary, 16 at most. Each answers reads of histories and maps
	// for some channels, if it has all that this node has seen of them; otherwise the primary does. A replica gets as
	// many connections as the primary, and each question a quarter of Timeout, 1 s at most.
	Replicas []string

	// With a Fanout, one node reads each shard and sends the rows to all others, so the database has one reader per
	// shard, and not one per node and shard. Control messages are not part of it. Nodes with and without a Fanout can be
	// together. The broker closes it. Nil: each node reads all.
	Fanout Fanout
	// FanoutName tells fan-outs of the same tables apart: nodes with the same name reach each other.
	FanoutName string
	// FanoutInterval bounds how long it stays unnoticed that the last message is missing, from 10 ms to 1 hour. Default
	// 5 s.
	FanoutInterval time.Duration

	// Timeout bounds every operation, at least 100 ms. Default 10 s.
	Timeout time.Duration
	// StartTimeout is for how long Run tries again if PostgreSQL cannot be reached. Default 0: one attempt.
	StartTimeout time.Duration
	// Logger for what happens to connections and tables. Default slog.Default().
	Logger *slog.Logger
}

var validPrefix = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

func (c Config) withDefaults() (Config, error) {
	c.TablePrefix = cmp.Or(strings.TrimRight(c.TablePrefix, "_"), DefaultTablePrefix)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	switch {
	case c.DSN == "":
		return c, errors.New("postgres: DSN is missing")
	case len(c.TablePrefix) > maxPrefix || !validPrefix.MatchString(c.TablePrefix):
		return c, fmt.Errorf("postgres: TablePrefix is %q: lower-case letters, digits and underscores, at most %d", c.TablePrefix, maxPrefix)
	case c.NotifyDSN != "" && !c.UseNotify && c.Fanout == nil:
		return c, errors.New("postgres: NotifyDSN needs UseNotify or Fanout")
	case len(c.Replicas) > maxReplicas:
		return c, fmt.Errorf("postgres: Replicas has %d elements, at most %d", len(c.Replicas), maxReplicas)
	}
	for _, n := range []struct {
		name               string
		value              *int
		standard, min, max int
	}{
		{"PoolSize", &c.PoolSize, DefaultPoolSize, minPoolSize, maxPoolSize},
		{"NumShards", &c.NumShards, DefaultNumShards, 1, maxNumShards},
		{"BatchSize", &c.BatchSize, DefaultBatchSize, 1, maxBatchSize},
		{"PartitionLookaheadDays", &c.PartitionLookaheadDays, DefaultPartitionLookahead, 1, maxLookahead},
		{"PartitionRetentionDays", &c.PartitionRetentionDays, DefaultPartitionRetention, -1, maxDays},
		{"ControlNumShards", &c.ControlNumShards, DefaultControlNumShards, 1, maxNumShards},
		{"ControlRetentionDays", &c.ControlRetentionDays, DefaultControlRetention, -1, maxDays},
	} {
		*n.value = cmp.Or(*n.value, n.standard)
		if *n.value < n.min || *n.value > n.max {
			return c, fmt.Errorf("postgres: %s is %d, at least %d and at most %d", n.name, *n.value, n.min, n.max)
		}
	}
	forEver := time.Duration(1<<63 - 1)
	for _, d := range []struct {
		name                     string
		value                    *time.Duration
		standard, least, longest time.Duration
	}{
		{"PollInterval", &c.PollInterval, DefaultPollInterval, minInterval, maxInterval},
		{"ControlPollInterval", &c.ControlPollInterval, DefaultControlPollInterval, minInterval, maxInterval},
		{"CleanupInterval", &c.CleanupInterval, DefaultCleanupInterval, minInterval, 24 * time.Hour},
		{"MapExpiryInterval", &c.MapExpiryInterval, DefaultMapExpiryInterval, minInterval, maxInterval},
		{"FanoutInterval", &c.FanoutInterval, DefaultFanoutInterval, 10 * minInterval, maxInterval},
		{"HistoryMetaTTL", &c.HistoryMetaTTL, DefaultHistoryMetaTTL, time.Millisecond, forEver},
		{"IdempotentResultTTL", &c.IdempotentResultTTL, DefaultIdempotentResultTTL, time.Millisecond, forEver},
		{"Timeout", &c.Timeout, DefaultTimeout, minTimeout, maxInterval},
		{"StartTimeout", &c.StartTimeout, 0, 0, forEver},
	} {
		*d.value = cmp.Or(*d.value, d.standard)
		if *d.value < d.least || *d.value > d.longest {
			return c, fmt.Errorf("postgres: %s is %v, at least %v and at most %v", d.name, *d.value, d.least, d.longest)
		}
	}
	return c, nil
}
