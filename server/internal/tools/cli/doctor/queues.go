package doctor

import (
	"context"
	"errors"
	"log/slog"

	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/engine/notify"
	"github.com/gyrohq/gyro/server/internal/queues/sources"
	"github.com/gyrohq/gyro/server/internal/services"
)

func (d *doctor) queues(ctx context.Context) {
	list, err := sources.Enabled(d.Config.Consumers)
	if err != nil {
		return // the check of the configuration has told
	}
	for _, c := range list {
		d.queue(ctx, c)
	}
	d.notifications(ctx)
}

func (d *doctor) queue(ctx context.Context, c *sources.Consumer) {
	const area = "consumers"
	probing, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	if err := c.Probe(probing); err != nil {
		advice := "look at the queue, and at the credentials that " + c.Key + " uses"
		if _, ok := asOption(err); ok {
			advice = "start it, or correct " + blamed(c.Key, "", err)
		}
		d.report(area, Fail, advice, "%s: %s", c.Key, secretless(err))
		return
	}
	d.report(area, OK, "", "%s: it can be used", c.Key)
	switch of := c.Config; of.Type {
	case config.TypePostgreSQL:
		secure, err := of.PostgreSQL.TLS.ClientConfig()
		if err == nil {
			d.database(ctx, database{key: c.Key, option: "dsn", dsn: of.PostgreSQL.DSN, tls: secure, primary: true})
		}
	case config.TypeRedisStream:
		shards, err := services.RedisShards(&of.RedisStream.Redis)
		if err == nil {
			d.shard(ctx, c.Key, c.Key, services.AddressKey(&of.RedisStream.Redis), &shards[0], nil)
		}
	}
}

func (d *doctor) notifications(ctx context.Context) {
	const area = "shared polls"
	r, err := notify.New(d.Config, notify.Config{Notify: func(string, ...string) int { return 0 }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil || r == nil {
		return // the check of the configuration has told, or no service notifies
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	if err := r.Start(ctx); err != nil {
		d.report(area, Fail, "start it, or correct the key", "%s", secretless(err))
		return
	}
	r.Close()
	d.report(area, OK, "", "notifications of keys can come")
}

func asOption(err error) (string, bool) {
	if named, ok := errors.AsType[*services.OptionError](err); ok {
		return named.Option, true
	}
	return "", false
}
