package engine

import (
	"cmp"
	"fmt"
	"reflect"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/postgres"
	"github.com/gyrohq/gyro/server/internal/config/engines"
)

func (m *maker) sharesPostgres() bool {
	b, maps := &m.cfg.Broker, &m.cfg.MapBroker
	return b.Enabled && b.Type == engines.TypePostgres && maps.Type == engines.TypePostgres && reflect.DeepEqual(b.Postgres, maps.Postgres.Postgres)
}

func (m *maker) postgres(key string, c *engines.Postgres, edit ...func(*postgres.Config)) (broker.Broker, error) {
	of, err := m.postgresServer(key, &c.PostgresServer)
	if err != nil {
		return nil, err
	}
	of.PoolSize, of.NumShards, of.BinaryData = c.PoolSize, c.NumShards, c.BinaryData
	of.PollInterval, of.BatchSize = c.Outbox.PollInterval, c.Outbox.BatchSize
	of.HistoryMetaTTL, of.IdempotentResultTTL = cmp.Or(m.cfg.Channel.HistoryMetaTTL, c.StreamRetention), c.IdempotentResultTTL
	of.CleanupInterval, of.MapExpiryInterval = c.CleanupInterval, m.cfg.MapBroker.Postgres.TTLCheckInterval
	of.PartitionLookaheadDays, of.PartitionRetentionDays = c.PartitionLookaheadDays, c.PartitionRetentionDays
	if c.Replica.Enabled {
		of.Replicas = c.Replica.DSN
	}
	if of.Fanout, of.FanoutName, err = m.fanout(key+".broker_fanout", &c.BrokerFanout); err != nil {
		return nil, err
	}
	for _, f := range edit {
		f(&of)
	}
	b, err := postgres.New(of)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	m.remember(Server{Key: key, AddressKey: "dsn", Postgres: &of}, b)
	return b, nil
}

// fanout also returns the name of the fan-out. It is nil if there is none.
func (m *maker) fanout(key string, c *engines.BrokerFanout) (f postgres.Fanout, name string, err error) {
	if !c.Enabled {
		return nil, "", nil
	}
	prefix := cmp.Or(c.ChannelPrefix, defaultFanoutPrefix)
	name = c.Type + " " + prefix
	if c.Type == engines.TypeNATS {
		b, err := m.nats(key+".nats", &engines.NATS{
			URL: c.NATS.URL, Prefix: prefix, DialTimeout: c.NATS.DialTimeout, WriteTimeout: c.NATS.WriteTimeout, StartTimeout: c.StartTimeout, TLS: c.NATS.TLS,
		})
		if err != nil {
			return nil, "", err
		}
		return postgres.FanoutOver(b), name, nil
	}
	of := &engines.PrefixedRedis{Prefix: prefix, Redis: c.Redis, StartTimeout: c.StartTimeout}
	e, err := m.redis(key+".redis", of, engines.RedisBroker{}, engines.RedisPresence{})
	if err != nil {
		return nil, "", err
	}
	return postgres.FanoutOver(e.Broker()), name, nil
}

const defaultFanoutPrefix = "gyro_fanout"

func (m *maker) controller() error {
	if !m.cfg.Controller.Enabled {
		return nil
	}
	const key = "controller.postgres"
	c := &m.cfg.Controller.Postgres
	of, err := m.postgresServer(key, &c.PostgresServer)
	if err != nil {
		return err
	}
	of.PoolSize, of.ControlNumShards = c.PoolSize, c.NumShards
	of.ControlPollInterval, of.BatchSize = c.PollInterval, c.BatchSize
	of.CleanupInterval = c.PartitionCleanupInterval
	of.PartitionLookaheadDays, of.ControlRetentionDays = c.PartitionLookaheadDays, c.PartitionRetentionDays
	made, err := postgres.NewController(of)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	m.note("controller", m.cfg.Controller.Type)
	m.set.Controller = made
	m.remember(Server{Key: key, AddressKey: "dsn", Postgres: &of}, made)
	return nil
}

func (m *maker) postgresServer(key string, c *engines.PostgresServer) (postgres.Config, error) {
	tls, err := c.TLS.ClientConfig()
	if err != nil {
		return postgres.Config{}, fmt.Errorf("%s.tls.%w", key, err)
	}
	return postgres.Config{
		DSN: c.DSN, TLS: tls, TablePrefix: c.TablePrefix, UseNotify: c.UseNotify, NotifyDSN: c.NotifyDSN,
		SkipSchemaInit: c.SkipSchemaInit, Timeout: c.IOTimeout, StartTimeout: c.StartTimeout, Logger: m.log.With("key", key+".dsn"),
	}, nil
}
