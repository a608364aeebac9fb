package config

import (
	"cmp"
	"regexp"
	"time"
)

// The limits of what the PostgreSQL engine takes.
const (
	minPostgresPeriod  = time.Millisecond
	maxPostgresPeriod  = time.Hour
	maxPostgresCleanup = 24 * time.Hour
	minPostgresTimeout = 100 * time.Millisecond
	maxTablePrefix     = 20
)

var tablePrefix = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

func (s *PostgresServer) check(p *problems, key string) {
	if s.DSN == "" {
		p.add(key+".dsn", "is required")
	}
	if t := s.TablePrefix; len(t) > maxTablePrefix || t != "" && !tablePrefix.MatchString(t) {
		p.add(key+".table_prefix", "%s is not lower-case letters, digits and underscores, %d at most", quote(t), maxTablePrefix)
	}
	if s.NotifyDSN != "" && !s.UseNotify {
		p.add(key+".notify_dsn", "needs use_notify")
	}
	checkBetween(p, key+".io_timeout", s.IOTimeout, minPostgresTimeout, maxPostgresPeriod)
	checkStartTimeout(p, key, s.StartTimeout)
	checkClientTLS(p, key+".tls", s.TLS)
}

func checkPoolSize(p *problems, key string, n int) {
	if n == 1 {
		p.add(key+".pool_size", "1 is less than 2")
	}
}

func (b *Postgres) check(p *problems, key string) {
	b.PostgresServer.check(p, key)
	checkPoolSize(p, key, b.PoolSize)
	checkBetween(p, key+".cleanup_interval", b.CleanupInterval, minPostgresPeriod, maxPostgresCleanup)
	checkBetween(p, key+".outbox.poll_interval", b.Outbox.PollInterval, minPostgresPeriod, maxPostgresPeriod)
	checkPositive(p, key+".idempotent_result_ttl", b.IdempotentResultTTL)
	checkPositive(p, key+".stream_retention", b.StreamRetention)
}

func (m *MapBroker) check(p *problems) {
	if m.Type != TypePostgres {
		return
	}
	m.Postgres.check(p, "map_broker.postgres")
	checkBetween(p, "map_broker.postgres.ttl_check_interval", m.Postgres.TTLCheckInterval, minPostgresPeriod, maxPostgresPeriod)
}

func (c *Controller) check(p *problems) {
	if !c.Enabled {
		return
	}
	if c.Type != TypePostgres {
		p.add("controller.type", "%s is not postgres", quote(c.Type))
		return
	}
	x := &c.Postgres
	x.PostgresServer.check(p, "controller.postgres")
	checkPoolSize(p, "controller.postgres", x.PoolSize)
	checkBetween(p, "controller.postgres.poll_interval", x.PollInterval, minPostgresPeriod, maxPostgresPeriod)
	checkBetween(p, "controller.postgres.partition_cleanup_interval", x.PartitionCleanupInterval, minPostgresPeriod, maxPostgresCleanup)
}

func checkBetween(p *problems, key string, d, least, most time.Duration) {
	if d < least || d > most {
		p.add(key, "%s is not between %s and %s", d, least, most)
	}
}

// day is how long publications are in one partition.
const day = 24 * time.Hour

// retentionDays is for how many days publications are kept; -1: for ever.
func (b *Postgres) retentionDays() int {
	return cmp.Or(b.PartitionRetentionDays, defaultRetentionDays)
}

const defaultRetentionDays = 7

// checkOnPostgres tests that channels need nothing that their broker does not keep.
func (c *Config) checkOnPostgres(p *problems, key string, b *Postgres, o *ChannelOptions) {
	ttl, name := o.HistoryTTL, ".history_ttl"
	if o.IsMap() {
		ttl, name = o.Map.StreamTTL, ".map.stream_ttl"
	}
	if days := b.retentionDays(); days > 0 && ttl > time.Duration(days)*day {
		p.add(key+name, "%s is longer than the broker of these channels keeps publications: partition_retention_days is %d", ttl, days)
	}
	if format := cmp.Or(o.PublicationDataFormat, c.Channel.PublicationDataFormat); format == "binary" && !b.BinaryData {
		p.add(key+".publication_data_format", "binary needs binary_data of the PostgreSQL broker of these channels")
	}
}
