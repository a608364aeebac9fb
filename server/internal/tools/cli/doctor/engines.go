package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/redis/rueidis"

	natsbroker "github.com/gyrohq/gyro/broker/nats"
	"github.com/gyrohq/gyro/broker/postgres"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/server/internal/engine"
	"github.com/gyrohq/gyro/server/internal/services"
)

// Clocks may differ by skew: tokens are judged by the clock of this machine.
const skew = 2 * time.Second

const (
	leastRedis         = "6.2"
	leastRedisFieldTTL = "7.4" // HPEXPIRE
	leastRedisSharded  = "7.0" // SSUBSCRIBE
	leastPostgres      = 13
)

func (d *doctor) engines(ctx context.Context) {
	set, err := engine.New(d.Config, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return // the check of the configuration has told
	}
	for _, s := range set.Servers() {
		switch {
		case s.Redis != nil:
			d.redis(ctx, s.Key, s.AddressKey, s.Redis)
		case s.NATS != nil:
			d.nats(ctx, s.Key, s.NATS)
		case s.Postgres != nil:
			d.postgres(ctx, s.Key, s.Postgres)
		}
	}
}

func (d *doctor) redis(ctx context.Context, key, addressKey string, c *redis.Config) {
	for i := range c.Shards {
		name := key
		if len(c.Shards) > 1 {
			name = fmt.Sprintf("%s, shard %d", key, i)
		}
		d.shard(ctx, key, name, addressKey, &c.Shards[i], c)
	}
}

// shard looks at a Redis, or at a group of them. c is nil if it is no engine.
func (d *doctor) shard(ctx context.Context, key, name, addressKey string, s *redis.Shard, c *redis.Config) {
	const area = "redis"
	if s.Mode == redis.Sentinel || s.SentinelMaster != "" {
		s = d.sentinels(ctx, key, name, s)
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	client, err := services.Redis(ctx, s, addressKey)
	if err != nil {
		d.report(area, Fail, "start Redis, or correct "+blamed(key, addressKey, err), "%s: %s", name, secretless(err))
		return
	}
	defer client.Close()
	begun := time.Now()
	now, err := client.Do(ctx, client.B().Time().Build()).AsStrSlice()
	took := since(begun)
	var info string
	if err == nil && len(now) == 2 {
		info, err = client.Do(ctx, client.B().Info().Build()).ToString()
	}
	if err != nil || info == "" {
		d.report(area, Fail, "allow the user ("+key+".user) the commands TIME and INFO, or look at the server", "%s: it does not tell its time and state: %v", name, err)
		return
	}
	version := cmp.Or(field(info, "valkey_version"), field(info, "redis_version"))
	clustered := field(info, "cluster_enabled") == "1"
	switch {
	case older(version, leastRedis):
		d.report(area, Fail, "upgrade it", "%s: version %s is older than %s", name, version, leastRedis)
	case c != nil && c.PresenceHashFieldTTL && older(version, leastRedisFieldTTL):
		d.report(area, Fail, "upgrade it, or leave out "+key+".presence_hash_field_ttl", "%s: presence_hash_field_ttl needs version %s, this is %s", name, leastRedisFieldTTL, version)
	case c != nil && c.ShardedPubSubPartitions > 0 && (!clustered || older(version, leastRedisSharded)):
		d.report(area, Fail, "use a Cluster of version "+leastRedisSharded+", or leave out "+key+".sharded_pub_sub_partitions", "%s: sharded_pub_sub_partitions needs a Cluster of version %s", name, leastRedisSharded)
	default:
		d.report(area, OK, "", "%s: version %s, answers within %s", name, version, took)
	}
	d.role(key, name, addressKey, info, clustered)
	if clustered {
		state, err := client.Do(ctx, client.B().ClusterInfo().Build()).ToString()
		if got := field(state, "cluster_state"); err == nil && got != "ok" {
			d.report(area, Fail, "look at redis-cli --cluster check: slots have no server", "%s: the state of the Cluster is %q, %s of 16384 slots are served", name, got, field(state, "cluster_slots_ok"))
		}
	}
	d.memory(name, info)
	d.persistence(ctx, name, info, client)
	seconds, _ := strconv.ParseInt(now[0], 10, 64)
	micros, _ := strconv.ParseInt(now[1], 10, 64)
	d.clock(name, time.Unix(seconds, micros*1000), begun, took)
}

// role tells of a replica where a primary should be. In a Cluster, any node leads to the primaries.
func (d *doctor) role(key, name, addressKey, info string, clustered bool) {
	if field(info, "role") == "slave" && !clustered {
		d.report("redis", Fail, "let "+key+"."+addressKey+" be the primary, or name the Sentinels in "+key+".sentinel_address", "%s: it is a replica of %s:%s, which takes no writes", name, field(info, "master_host"), field(info, "master_port"))
	}
}

func (d *doctor) memory(name, info string) {
	const area, more = "redis", "CONFIG SET maxmemory to more, or keep less history"
	maxMemory, _ := strconv.ParseInt(field(info, "maxmemory"), 10, 64)
	used, _ := strconv.ParseInt(field(info, "used_memory"), 10, 64)
	buffers, _ := strconv.ParseInt(field(info, "mem_not_counted_for_evict"), 10, 64) // of replicas, and of the file of commands
	used -= buffers
	policy := field(info, "maxmemory_policy")
	switch {
	case maxMemory == 0:
	case policy != "noeviction":
		d.report(area, Warn, "CONFIG SET maxmemory-policy noeviction, and let it have the memory that it needs", "%s: maxmemory-policy is %s: when the memory is full, it drops history, presence and maps without a word", name, policy)
	case used > maxMemory:
		d.report(area, Fail, more, "%s: it uses %d of %d bytes: publications with history fail", name, used, maxMemory)
	case used > maxMemory/10*9:
		d.report(area, Warn, more, "%s: it uses %d of %d bytes: beyond that, publications with history fail", name, used, maxMemory)
	}
	if field(info, "rdb_last_bgsave_status") == "err" {
		d.report(area, Warn, "look at its log; CONFIG SET stop-writes-on-bgsave-error no lets it write all the same", "%s: its last snapshot failed, so it may refuse to write", name)
	}
}

// persistence tells of a Redis that forgets everything when it restarts, if the user may read its configuration.
func (d *doctor) persistence(ctx context.Context, name, info string, client rueidis.Client) {
	if field(info, "aof_enabled") != "0" {
		return
	}
	settings, err := client.Do(ctx, client.B().ConfigGet().Parameter("save").Build()).AsStrMap()
	if save, told := settings["save"]; err == nil && told && save == "" {
		d.report("redis", Warn, "CONFIG SET appendonly yes, and appendonly yes in its file", `%s: it does not persist (appendonly no, save ""): after a restart streams, presence and maps are gone, and all clients start over`, name)
	}
}

func field(text, name string) string {
	text = "\n" + strings.TrimPrefix(text, "txt:") // the kind of text in RESP3
	_, rest, _ := strings.Cut(text, "\n"+name+":")
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

// clock compares a server's time with this machine's. The server read its clock at some moment between begun and
// begun+took.
func (d *doctor) clock(of string, told, begun time.Time, took time.Duration) {
	const area = "clocks"
	begun = begun.Add(d.Ahead)
	first, last := told.Sub(begun), told.Sub(begun.Add(took))
	switch {
	case last > skew || first < -skew:
		d.report(area, Fail, "synchronise both clocks (chrony, systemd-timesyncd)", "the clock of %s differs by %s: tokens expire at the wrong time, and what is recovered may be wrong", of, (last + took/2).Round(time.Millisecond))
	case first >= skew || last <= -skew:
		d.report(area, Warn, "run gyro doctor again when both are less busy", "the clock of %s may differ by more than %s: it was told within %s", of, skew, took.Round(time.Millisecond))
	default:
		d.report(area, OK, "", "the clock of %s differs by less than %s", of, skew)
	}
}

func (d *doctor) nats(ctx context.Context, key string, c *natsbroker.Config) {
	const area = "nats"
	of := services.NATS{URL: c.URL, TLS: c.TLS}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	ctx, deny := context.WithCancelCause(ctx)
	defer deny(nil)
	conn, err := of.Connect(nats.Timeout(d.Timeout), nats.NoReconnect(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { deny(err) }))
	if err != nil {
		d.report(area, Fail, "start NATS, or correct "+blamed(key, "url", err), "%s: %s", key, secretless(err))
		return
	}
	defer conn.Close()
	took, err := conn.RTT()
	if err != nil {
		d.report(area, Fail, "look at the server", "%s: %s", key, secretless(err))
		return
	}
	d.report(area, OK, "", "%s: version %s, answers within %s", key, conn.ConnectedServerVersion(), took.Round(10*time.Microsecond))
	if maxPayload, limit := conn.MaxPayload(), int64(d.Config.WebSocket.MessageSizeLimit); maxPayload < limit {
		d.report(area, Warn, "let max_payload of NATS be more, or websocket.message_size_limit less", "%s: it refuses messages of more than %d bytes, clients may send %d (websocket.message_size_limit)", key, maxPayload, limit)
	}
	// Nodes listen to themselves there. In the raw mode, no other subject is free of the application.
	subject := c.Prefix + ".canary.doctor-" + nats.NewInbox()[len(nats.InboxPrefix):]
	sub, err := conn.SubscribeSync(subject)
	if err == nil {
		err = conn.Publish(subject, nil)
	}
	if err == nil {
		err = conn.FlushWithContext(ctx)
	}
	if err == nil {
		_, err = sub.NextMsgWithContext(ctx)
	}
	if err == nil {
		return
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	d.report(area, Fail, "allow the user of "+key+".url to publish and subscribe to "+c.Prefix+".>, or correct "+key+".prefix", "%s: a message that is published does not come back: %s", key, secretless(err))
}

func (d *doctor) postgres(ctx context.Context, key string, c *postgres.Config) {
	d.database(ctx, database{key: key, option: "dsn", dsn: c.DSN, tls: c.TLS, primary: true, connections: c.PoolSize, creates: !c.SkipSchemaInit})
	if c.NotifyDSN != "" {
		d.database(ctx, database{key: key, option: "notify_dsn", dsn: c.NotifyDSN, tls: c.TLS, primary: true})
	}
	for i, dsn := range c.Replicas {
		d.database(ctx, database{key: key, option: fmt.Sprintf("replica.dsn[%d]", i), dsn: dsn, tls: c.TLS, connections: c.PoolSize, standby: true})
	}
}

type database struct {
	key, option, dsn string
	tls              *tls.Config
	primary, standby bool
	connections      int  // that the node makes at most
	creates          bool // tables at start
}

func (d *doctor) database(ctx context.Context, of database) {
	const area = "postgresql"
	name := of.key + "." + of.option
	c, err := pgx.ParseConfig(of.dsn)
	if err != nil {
		d.report(area, Fail, "correct "+name, "%s: it does not parse", name) // the error may show the password
		return
	}
	services.SecurePostgres(c, of.tls)
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		if option := services.TLSOption(of.key+".tls", err); option != "" {
			name = option
		}
		d.report(area, Fail, "start PostgreSQL, or correct "+name, "%s.%s: %s", of.key, of.option, secretless(err))
		return
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the process ends
	var s struct {
		version      string
		number       int
		now          time.Time
		standby      bool
		free         int
		mayCreate    bool
		schema, user string
	}
	begun := time.Now()
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('server_version_num')::int, clock_timestamp(), pg_is_in_recovery(),
		current_setting('max_connections')::int - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::int,
		coalesce(has_schema_privilege(current_schema(), 'CREATE'), false), coalesce(current_schema(), ''), current_user`).
		Scan(&s.version, &s.number, &s.now, &s.standby, &s.free, &s.mayCreate, &s.schema, &s.user)
	took := since(begun)
	if err != nil {
		d.report(area, Fail, "look at the server", "%s: %s", name, secretless(err))
		return
	}
	switch {
	case s.number/10000 < leastPostgres:
		d.report(area, Fail, "upgrade it", "%s: version %s is older than %d", name, s.version, leastPostgres)
	case of.primary && s.standby:
		d.report(area, Fail, "let "+name+" be the primary, for example by target_session_attrs=read-write", "%s: it is a standby, which takes no writes", name)
	case of.standby && !s.standby:
		d.report(area, Warn, "let "+name+" be a standby, or disable "+of.key+".replica", "%s: it is no standby: reads burden the primary all the same", name)
	case of.creates && !s.mayCreate:
		d.report(area, Fail, "GRANT CREATE ON SCHEMA to the user, or set "+of.key+".skip_schema_init and make the tables yourself", "%s: user %q may not create tables in schema %q", name, s.user, s.schema)
	default:
		d.report(area, OK, "", "%s: version %s, answers within %s", name, s.version, took)
	}
	if s.free < of.connections {
		d.report(area, Warn, "let max_connections of PostgreSQL be more, or "+of.key+".pool_size less", "%s: it has %d connections left, and this node alone may make %d", name, s.free, of.connections)
	}
	d.clock(name, s.now, begun, took)
}

// blamed is the key that is to blame for an error, option below key if it does not tell.
func blamed(key, option string, err error) string {
	if named, ok := asOption(err); ok {
		option = named
	}
	return key + "." + strings.ReplaceAll(option, ", ", ", "+key+".")
}

var password = regexp.MustCompile(`(://[^:/@\s]*:)[^@\s]*@`)

// secretless is an error in one line, without passwords of URLs.
func secretless(err error) string {
	return password.ReplaceAllString(strings.ReplaceAll(strings.ReplaceAll(err.Error(), ":\n\t", ": "), "\n\t", "; "), "${1}…@")
}
