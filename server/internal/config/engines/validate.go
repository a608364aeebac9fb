package engines

import (
	"cmp"
	"fmt"
	"regexp"
	"time"

	"github.com/gyrohq/gyro/server/internal/config/internal/problem"
	"github.com/gyrohq/gyro/server/internal/config/material"
)

// maxStartTimeout bounds start_timeout.
const maxStartTimeout = time.Hour

const (
	minPostgresPeriod  = time.Millisecond
	maxPostgresPeriod  = time.Hour
	maxPostgresCleanup = 24 * time.Hour
	minPostgresTimeout = 100 * time.Millisecond
	maxTablePrefix     = 20
	maxReplicas        = 16
)

var tablePrefix = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// Check checks an enabled broker.
func (b *Broker) Check(p *problem.List, key string) {
	switch {
	case !b.Enabled:
	case b.Type == TypeRedis:
		b.Redis.Check(p, key+".redis")
	case b.Type == TypeNATS:
		b.NATS.Check(p, key+".nats")
	case b.Type == TypePostgres:
		b.Postgres.Check(p, key+".postgres")
	}
}

// Check checks an engine that has a broker or presence manager to provide.
func (e *Engine) Check(p *problem.List, key string) {
	switch e.Type {
	case TypeMemory:
	case TypeRedis:
		e.Redis.Check(p, key+".redis")
		e.Redis.checkTTL(p, key+".redis")
	default:
		p.Add(key+".type", "%s is not one of memory, redis", problem.Quote(e.Type))
	}
}

// Check checks an enabled presence manager.
func (m *PresenceManager) Check(p *problem.List, key string) {
	if m.Enabled && m.Type == TypeRedis {
		m.Redis.Check(p, key+".redis")
		m.Redis.checkTTL(p, key+".redis")
	}
}

// Check checks the connection.
func (r *PrefixedRedis) Check(p *problem.List, key string) {
	r.Redis.Check(p, key)
	checkStartTimeout(p, key, r.StartTimeout)
	checkClientTLS(p, key+".tls", r.TLS)
	checkClientTLS(p, key+".sentinel_tls", r.SentinelTLS)
}

// Check checks the connection.
func (r *Redis) Check(p *problem.List, key string) {
	p.Positive(key+".connect_timeout", r.ConnectTimeout)
	p.Positive(key+".io_timeout", r.IOTimeout)
	if r.DB < 0 {
		p.Add(key+".db", "%d is negative", r.DB)
	}
	if len(r.ClusterAddress) == 0 && len(r.SentinelAddress) > 0 && r.SentinelMasterName == "" {
		p.Add(key+".sentinel_master_name", "is required by sentinel_address")
	}
}

// Addresses returns the addresses in use and their key. cluster_address comes before
// sentinel_address, and this before address.
func (r *Redis) Addresses() (list []string, key string) {
	switch {
	case len(r.ClusterAddress) > 0:
		return r.ClusterAddress, "cluster_address"
	case len(r.SentinelAddress) > 0:
		return r.SentinelAddress, "sentinel_address"
	}
	return r.Address, "address"
}

// checkTTL requires at least one second: Redis expires entries by the second.
func (r *RedisPresence) checkTTL(p *problem.List, key string) {
	if r.PresenceTTL < time.Second {
		p.Add(key+".presence_ttl", "%s is less than 1s", r.PresenceTTL)
	}
}

// Check checks the connection.
func (n *NATS) Check(p *problem.List, key string) {
	p.Positive(key+".dial_timeout", n.DialTimeout)
	p.Positive(key+".write_timeout", n.WriteTimeout)
	checkStartTimeout(p, key, n.StartTimeout)
	checkClientTLS(p, key+".tls", n.TLS)
}

func checkStartTimeout(p *problem.List, key string, d time.Duration) {
	if d > maxStartTimeout {
		p.Add(key+".start_timeout", "%s is more than %s", d, maxStartTimeout)
	}
}

func checkClientTLS(p *problem.List, key string, t material.TLS) {
	if _, err := t.ClientConfig(); err != nil {
		p.Add(key, "%w", err)
	}
}

func (s *PostgresServer) check(p *problem.List, key string) {
	if s.DSN == "" {
		p.Add(key+".dsn", "is required")
	}
	if t := s.TablePrefix; len(t) > maxTablePrefix || t != "" && !tablePrefix.MatchString(t) {
		p.Add(key+".table_prefix", "%s is not lower-case letters, digits and underscores, %d at most", problem.Quote(t), maxTablePrefix)
	}
	if s.NotifyDSN != "" && !s.UseNotify {
		p.Add(key+".notify_dsn", "needs use_notify")
	}
	p.Between(key+".io_timeout", s.IOTimeout, minPostgresTimeout, maxPostgresPeriod)
	checkStartTimeout(p, key, s.StartTimeout)
	checkClientTLS(p, key+".tls", s.TLS)
}

func checkPoolSize(p *problem.List, key string, n int) {
	if n == 1 {
		p.Add(key+".pool_size", "1 is less than 2")
	}
}

// Check checks the broker.
func (b *Postgres) Check(p *problem.List, key string) {
	b.PostgresServer.check(p, key)
	checkPoolSize(p, key, b.PoolSize)
	p.Between(key+".cleanup_interval", b.CleanupInterval, minPostgresPeriod, maxPostgresCleanup)
	p.Between(key+".outbox.poll_interval", b.Outbox.PollInterval, minPostgresPeriod, maxPostgresPeriod)
	b.checkReplica(p, key+".replica")
	b.BrokerFanout.check(p, key+".broker_fanout")
	p.Positive(key+".idempotent_result_ttl", b.IdempotentResultTTL)
	p.Positive(key+".stream_retention", b.StreamRetention)
}

func (b *Postgres) checkReplica(p *problem.List, key string) {
	if !b.Replica.Enabled {
		return
	}
	key += ".dsn"
	if n := len(b.Replica.DSN); n == 0 {
		p.Add(key, "is required by enabled")
	} else if n > maxReplicas {
		p.Add(key, "%d elements are more than %d", n, maxReplicas)
	}
	for i, dsn := range b.Replica.DSN {
		if dsn == "" {
			p.Add(fmt.Sprintf("%s[%d]", key, i), "is empty")
		}
	}
}

func (f *BrokerFanout) check(p *problem.List, key string) {
	if !f.Enabled {
		return
	}
	checkStartTimeout(p, key, f.StartTimeout)
	if f.Type == TypeNATS {
		n := NATS{DialTimeout: f.NATS.DialTimeout, WriteTimeout: f.NATS.WriteTimeout, TLS: f.NATS.TLS}
		n.Check(p, key+".nats")
		return
	}
	r := PrefixedRedis{Redis: f.Redis}
	r.Check(p, key+".redis")
}

// Check checks the broker.
func (m *MapBroker) Check(p *problem.List, key string) {
	m.checkCache(p, key+".cache")
	switch m.Type {
	case TypeRedis:
		m.Redis.PrefixedRedis.Check(p, key+".redis")
	case TypePostgres:
		m.Postgres.Check(p, key+".postgres")
		p.Between(key+".postgres.ttl_check_interval", m.Postgres.TTLCheckInterval, minPostgresPeriod, maxPostgresPeriod)
	}
}

func (m *MapBroker) checkCache(p *problem.List, key string) {
	c := &m.Cache
	if !m.Cached() {
		return
	}
	if m.Type == TypeRedis && m.Redis.SkipPubSub {
		p.Add(key+".enabled", "needs the changes that redis.skip_pub_sub holds back")
	}
	p.Between(key+".idle_timeout", c.IdleTimeout, time.Second, 24*time.Hour)
	p.Between(key+".sync_interval", c.SyncInterval, time.Second, time.Hour)
	p.Between(key+".load_timeout", c.LoadTimeout, 100*time.Millisecond, time.Minute)
}

// Check checks an enabled broker.
func (m *NamedMapBroker) Check(p *problem.List, key string) {
	if m.Enabled {
		m.MapBroker.Check(p, key)
	}
}

// Check checks an enabled controller.
func (c *Controller) Check(p *problem.List, key string) {
	if !c.Enabled {
		return
	}
	if c.Type != TypePostgres {
		p.Add(key+".type", "%s is not postgres", problem.Quote(c.Type))
		return
	}
	x := &c.Postgres
	x.PostgresServer.check(p, key+".postgres")
	checkPoolSize(p, key+".postgres", x.PoolSize)
	p.Between(key+".postgres.poll_interval", x.PollInterval, minPostgresPeriod, maxPostgresPeriod)
	p.Between(key+".postgres.partition_cleanup_interval", x.PartitionCleanupInterval, minPostgresPeriod, maxPostgresCleanup)
}

// RetentionDays is the number of days for which publications are kept; -1: for ever.
func (b *Postgres) RetentionDays() int {
	return cmp.Or(b.PartitionRetentionDays, defaultRetentionDays)
}

const defaultRetentionDays = 7
