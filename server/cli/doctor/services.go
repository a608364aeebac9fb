package doctor

import (
	"context"
	"crypto/tls"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/gyrohq/gyro/server/config"
	"github.com/gyrohq/gyro/server/config/engines"
	"github.com/gyrohq/gyro/server/config/material"
	"github.com/gyrohq/gyro/server/dial"
	"github.com/gyrohq/gyro/server/engine"
)

// skew is by how much clocks may differ: tokens are judged by the clock of this machine.
const skew = 2 * time.Second

// leastRedis is the oldest version of Redis that Gyro supports.
const leastRedis = "6.2"

// engines looks at what the nodes of a cluster share.
func (d *doctor) engines(ctx context.Context) {
	c := d.Config
	if c.UsesEngine() && c.Engine.Type == "redis" {
		d.redis(ctx, "engine.redis", &c.Engine.Redis.Redis)
	}
	broker := func(key string, b *engines.Broker) {
		switch b.Type {
		case "redis":
			d.redis(ctx, key+".redis", &b.Redis.Redis)
		case "nats":
			d.nats(ctx, key+".nats", dial.NATS{URL: b.NATS.URL}, b.NATS.TLS)
		case "postgres":
			d.postgres(ctx, key+".postgres", b.Postgres.DSN, b.Postgres.TLS)
		}
	}
	if c.Broker.Enabled {
		broker("broker", &c.Broker)
	}
	for i := range c.Brokers {
		if b := &c.Brokers[i]; b.Enabled {
			broker(fmt.Sprintf("brokers[%d](%s)", i, b.Name), &b.Broker)
		}
	}
	if p := &c.PresenceManager; p.Enabled && p.Type == "redis" {
		d.redis(ctx, "presence_manager.redis", &p.Redis.Redis)
	}
	switch m := &c.MapBroker; m.Type {
	case "redis":
		d.redis(ctx, "map_broker.redis", &m.Redis.Redis)
	case "postgres":
		d.postgres(ctx, "map_broker.postgres", m.Postgres.DSN, m.Postgres.TLS)
	}
}

// consumers looks at the queues that commands come from. Those of clouds need their credentials and are left out.
func (d *doctor) consumers(ctx context.Context) {
	for i := range d.Config.Consumers {
		c := &d.Config.Consumers[i]
		if !c.Enabled {
			continue
		}
		key := fmt.Sprintf("consumers[%d](%s).%s", i, c.Name, c.Type)
		switch c.Type {
		case "postgresql":
			d.postgres(ctx, key, c.PostgreSQL.DSN, c.PostgreSQL.TLS)
		case "redis_stream":
			d.redis(ctx, key, &c.RedisStream.Redis)
		case "nats_jetstream":
			of, err := dial.NATSOf(key, &c.NATSJetStream.NATSServer)
			if err == nil { // else the check of the configuration has told
				d.nats(ctx, key, of, c.NATSJetStream.TLS)
			}
		case "kafka":
			for _, address := range c.Kafka.Brokers {
				d.reach(ctx, "kafka", key+".brokers", address)
			}
		}
	}
}

// redis asks each shard for its version and its time.
func (d *doctor) redis(ctx context.Context, key string, c *engines.Redis) {
	const area = "redis"
	shards, err := engine.RedisShards(key, c)
	if err != nil {
		return // the check of the configuration has told
	}
	for i := range shards {
		name := key
		if len(shards) > 1 {
			name = fmt.Sprintf("%s, shard %d", key, i)
		}
		ctx, cancel := context.WithTimeout(ctx, d.Timeout)
		client, err := dial.Redis(ctx, &shards[i], engine.AddressKey(c))
		if err != nil {
			cancel()
			d.say(area, Fail, "start Redis, or correct "+key, "%s: %s", name, secretless(err))
			continue
		}
		begun := time.Now()
		now, err := client.Do(ctx, client.B().Time().Build()).AsStrSlice()
		took := since(begun)
		text, infoErr := client.Do(ctx, client.B().Info().Section("server").Build()).ToString()
		client.Close()
		cancel()
		if err != nil || infoErr != nil || len(now) < 2 {
			d.say(area, Fail, "allow the commands TIME and INFO, or look at the server", "%s: it does not tell its time and version: %v %v", name, err, infoErr)
			continue
		}
		version := field(text, "redis_version")
		if own := field(text, "valkey_version"); own != "" {
			version = own
		}
		if older(version, leastRedis) {
			d.say(area, Fail, "upgrade it", "%s: version %s is older than %s", name, version, leastRedis)
		} else {
			d.say(area, OK, "", "%s: version %s, answers within %s", name, version, took)
		}
		seconds, _ := strconv.ParseInt(now[0], 10, 64)
		micros, _ := strconv.ParseInt(now[1], 10, 64)
		d.clock(name, time.Unix(seconds, micros*1000).Sub(begun.Add(took/2)))
	}
}

// field returns a field of INFO.
func field(text, name string) string {
	_, rest, _ := strings.Cut(text, name+":")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// older compares the first two numbers of versions.
func older(version, than string) bool {
	a, b := strings.Split(version+".0", "."), strings.Split(than+".0", ".")
	for i := range 2 {
		x, _ := strconv.Atoi(a[i])
		y, _ := strconv.Atoi(b[i])
		if x != y {
			return x < y
		}
	}
	return false
}

func (d *doctor) clock(of string, ahead time.Duration) {
	const area = "clocks"
	if ahead.Abs() > skew {
		d.say(area, Fail, "synchronise both clocks (chrony, systemd-timesyncd)", "the clock of %s differs by %s: tokens expire at the wrong time, and what is recovered may be wrong", of, ahead.Round(time.Millisecond))
		return
	}
	d.say(area, OK, "", "the clock of %s differs by less than %s", of, skew)
}

func (d *doctor) nats(ctx context.Context, key string, of dial.NATS, secure material.TLS) {
	const area = "nats"
	var err error
	if of.TLS, err = secure.ClientConfig(); err != nil {
		return // the check of the configuration has told
	}
	conn, err := of.Connect(nats.Timeout(d.Timeout), nats.NoReconnect())
	if err != nil {
		d.say(area, Fail, "start NATS, or correct "+key, "%s: %s", key, secretless(err))
		return
	}
	defer conn.Close()
	took, err := conn.RTT()
	if err != nil {
		d.say(area, Fail, "look at the server", "%s: %s", key, secretless(err))
		return
	}
	d.say(area, OK, "", "%s: version %s, answers within %s", key, conn.ConnectedServerVersion(), took.Round(10*time.Microsecond))
}

func (d *doctor) postgres(ctx context.Context, key, dsn string, secure config.TLS) {
	const area = "postgresql"
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return // the check of the configuration has told; the text may have a password
	}
	var material *tls.Config
	if material, err = secure.ClientConfig(); err != nil {
		return
	}
	if material != nil {
		c.TLSConfig = material
		if material.ServerName == "" {
			material.ServerName = c.Host
		}
	}
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		d.say(area, Fail, "start PostgreSQL, or correct "+key+".dsn", "%s: %s", key, secretless(err))
		return
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the process ends
	var version string
	var now time.Time
	begun := time.Now()
	err = conn.QueryRow(ctx, "SELECT current_setting('server_version'), clock_timestamp()").Scan(&version, &now)
	took := since(begun)
	if err != nil {
		d.say(area, Fail, "look at the server", "%s: %s", key, secretless(err))
		return
	}
	d.say(area, OK, "", "%s: version %s, answers within %s", key, version, took)
	d.clock(key, now.Sub(begun.Add(took/2)))
}

var password = regexp.MustCompile(`(://[^:/@\s]*:)[^@\s]*@`)

// secretless is the text of an error without passwords of URLs.
func secretless(err error) string { return password.ReplaceAllString(err.Error(), "${1}…@") }
