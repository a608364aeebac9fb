package doctor

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/broker/postgres/postgrestest"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/config/engines"
	"github.com/gyrohq/gyro/server/internal/config/material"
	"github.com/gyrohq/gyro/server/internal/testkit/natstest"
)

// db is the PostgreSQL of all tests.
var db = postgrestest.Shared{Options: postgrestest.Options{Settings: []string{"fsync=off"}}}

func TestMain(m *testing.M) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "hush", "AWS_EC2_METADATA_DISABLED": "true"} {
		_ = os.Setenv(name, value) // the name is valid
	}
	code := m.Run()
	db.Stop()
	if err := goleak.Find(redistest.Lingering(goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))...); code == 0 && err != nil {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

// diagnosis is a configuration, and what is found of it.
type diagnosis struct {
	name string
	edit func(*config.Config, *Options)
	want []string // parts of the findings
	ok   bool     // no problem
}

func (d *diagnosis) run(t *testing.T) {
	t.Helper()
	text, failed := examine(t, d.edit)
	for _, want := range d.want {
		if !strings.Contains(text, want) {
			t.Errorf("%s: not found: %s\n%s", d.name, want, text)
		}
	}
	if failed == d.ok || strings.Contains(text, "hush") {
		t.Errorf("%s: failed: %v\n%s", d.name, failed, text)
	}
}

// onRedis has the engine of channels in a Redis.
func onRedis(address string, edit func(*engines.RedisEngine)) func(*config.Config, *Options) {
	return func(c *config.Config, _ *Options) {
		c.Engine.Type, c.Engine.Redis.Address, c.Engine.Redis.ConnectTimeout = engines.TypeRedis, []string{address}, wait.Limit
		if edit != nil {
			edit(&c.Engine.Redis)
		}
	}
}

// TestClock: what is told of a clock does not depend on how fast a server answers.
func TestClock(t *testing.T) {
	begun := time.Unix(1_800_000_000, 0)
	for _, tt := range []struct {
		told, took time.Duration // told is after begun
		want       string
	}{
		{time.Millisecond, 2 * time.Millisecond, "ok clocks: the clock of x differs by less than 2s\n"},
		{1990 * time.Millisecond, 2 * time.Millisecond, "ok clocks: the clock of x differs by less than 2s\n"},
		{-1990 * time.Millisecond, 2 * time.Millisecond, "ok clocks: the clock of x differs by less than 2s\n"},
		{time.Second, 10 * time.Second, "warning clocks: the clock of x may differ by more than 2s: it was told within 10s\n"},
		{12 * time.Second, 10 * time.Second, "warning clocks: "},
		{-2 * time.Second, time.Millisecond, "warning clocks: "},
		{12001 * time.Millisecond, 10 * time.Second, "problem clocks: the clock of x differs by 7.001s: "},
		{-2001 * time.Millisecond, 10 * time.Second, "problem clocks: the clock of x differs by -7.001s: "},
	} {
		var text string
		d := doctor{Options: Options{Report: func(f Finding) error {
			text = string(f.Status) + " " + f.Area + ": " + f.Text + "\n"
			return nil
		}}}
		d.clock("x", begun.Add(tt.told), begun, tt.took)
		if !strings.HasPrefix(text, tt.want) {
			t.Errorf("%+v: %s", tt, text)
		}
	}
}

func TestRedis(t *testing.T) {
	t.Parallel()
	const well = "ok redis: engine.redis: version "
	open := redistest.Standalone(t, redistest.Options{})
	locked := redistest.Standalone(t, redistest.Options{Password: "hush", Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}})
	locked.Do("ACL", "SETUSER", "blind", "on", ">hush-blind", "~*", "&*", "+@all", "-info")
	full := redistest.Standalone(t, redistest.Options{Args: []string{"--maxmemory", "100kb", "--maxmemory-policy", "noeviction"}})
	nearly := redistest.Standalone(t, redistest.Options{})
	nearly.Do("SETRANGE", "large", strconv.Itoa(50<<20), "x")
	used, err := strconv.Atoi(field(nearly.Do("INFO", "memory"), "used_memory"))
	if err != nil {
		t.Fatal(err)
	}
	nearly.Do("CONFIG", "SET", "maxmemory", strconv.Itoa(used/100*105))
	volatile := redistest.Standalone(t, redistest.Options{Args: []string{"--save", ""}})
	replica := redistest.Standalone(t, redistest.Options{})
	host, port, _ := strings.Cut(open.Addr(), ":")
	replica.Do("REPLICAOF", host, port)
	for _, d := range []diagnosis{
		{"open", onRedis(open.Addr(), nil), []string{well, " clocks: the clock of engine.redis "}, true},
		{"two shards", func(c *config.Config, _ *Options) {
			c.Engine.Type, c.Engine.Redis.Address = engines.TypeRedis, []string{open.Addr(), "127.0.0.1:1"}
		}, []string{"ok redis: engine.redis, shard 0: version", "problem redis: engine.redis, shard 1: ", "correct engine.redis.address\n"}, false},
		{"no password", onRedis(locked.Addr(), nil), []string{"problem redis: engine.redis: ", "NOAUTH", "correct engine.redis.password\n"}, false},
		{"wrong password", onRedis("redis://:hush-wrong@"+locked.Addr(), nil), []string{"WRONGPASS", "correct engine.redis.password\n"}, false},
		{"password", onRedis("redis://:hush@"+locked.Addr(), nil), []string{
			well, "warning redis: engine.redis: maxmemory-policy is allkeys-lru: when the memory is full", "-> CONFIG SET maxmemory-policy noeviction",
		}, true},
		{"a user without INFO", onRedis(locked.Addr(), func(r *engines.RedisEngine) { r.User, r.Password = "blind", "hush-blind" }), []string{
			"it does not tell its time and state: ", "-> allow the user (engine.redis.user) the commands TIME and INFO",
		}, false},
		{"no persistence", onRedis(volatile.Addr(), nil), []string{"warning redis: engine.redis: it does not persist (appendonly no, save", "-> CONFIG SET appendonly yes"}, true},
		{"full", onRedis(full.Addr(), nil), []string{well, "problem redis: engine.redis: it uses ", " bytes: publications with history fail"}, false},
		{"nearly full", onRedis(nearly.Addr(), nil), []string{well, "warning redis: engine.redis: it uses ", ": beyond that, publications with history fail"}, true},
		{"replica", onRedis(replica.Addr(), nil), []string{"problem redis: engine.redis: it is a replica of " + open.Addr(), "let engine.redis.address be the primary"}, false},
		{"partitions without a Cluster", onRedis(open.Addr(), func(r *engines.RedisEngine) { r.Partitions = 8 }), []string{
			"problem redis: engine.redis: sharded_pub_sub_partitions needs a Cluster", "leave out engine.redis.sharded_pub_sub_partitions",
		}, false},
		{"Sentinel where none is", onRedis(open.Addr(), func(r *engines.RedisEngine) {
			r.SentinelAddress, r.SentinelMasterName = []string{open.Addr()}, "gyro"
		}), []string{"problem redis: engine.redis: ", "correct engine.redis.sentinel_address\n"}, false},
		{"clock", func(c *config.Config, o *Options) {
			onRedis(open.Addr(), nil)(c, o)
			o.Ahead = -90 * time.Minute
		}, []string{well, "problem clocks: the clock of engine.redis differs by 1h", "-> synchronise both clocks"}, false},
	} {
		d.run(t)
	}
}

// TestSentinels: each Sentinel is looked at, and a dead one hides nothing.
func TestSentinels(t *testing.T) {
	t.Parallel()
	s := redistest.NewSentinel(t, redistest.Options{Password: "hush"})
	on := func(edit func(*engines.RedisEngine)) func(*config.Config, *Options) {
		return onRedis("", func(r *engines.RedisEngine) {
			r.Address, r.SentinelAddress, r.SentinelMasterName, r.Password = nil, []string{strings.Join(s.Addresses(), ",")}, s.Master, "hush"
			if edit != nil {
				edit(r)
			}
		})
	}
	known := "3 Sentinels know each other, 3 of those that are configured answer, quorum 2, 1 replicas of " + s.Servers[0].Addr()
	for _, d := range []diagnosis{
		{"well", on(nil), []string{"ok redis: engine.redis: " + known, "ok redis: engine.redis: version "}, true},
		{"another name", on(func(r *engines.RedisEngine) { r.SentinelMasterName = "other" }), []string{"No such master", "correct engine.redis.sentinel_master_name\n"}, false},
	} {
		d.run(t)
	}
	s.Sentinels[0].Kill()
	dead := "warning redis: engine.redis: Sentinel " + s.Sentinels[0].Addr() + ": "
	for _, d := range []diagnosis{
		{"one is dead", on(nil), []string{dead, "start it, or correct engine.redis.sentinel_address", "ok redis: engine.redis: 3 Sentinels know each other, 2 of", "ok redis: engine.redis: version "}, true},
		{"one is dead, and no password", on(func(r *engines.RedisEngine) { r.Password = "" }), []string{dead, "problem redis: engine.redis: ", "NOAUTH", "correct engine.redis.password\n"}, false},
	} {
		d.run(t)
	}
	s.Sentinels[1].Do("ACL", "SETUSER", "default", ">hush-sentinel")
	d := diagnosis{"a password of its own", on(func(r *engines.RedisEngine) { r.SentinelAddress = []string{strings.Join(s.Addresses()[1:], ",")} }), []string{
		"problem redis: engine.redis: Sentinel " + s.Sentinels[1].Addr() + ": NOAUTH", "correct engine.redis.sentinel_password\n",
	}, false}
	d.run(t)
	s.Sentinels[1].Kill()
	d = diagnosis{"two are dead", on(nil), []string{dead, "problem redis: engine.redis: too few Sentinels for a failover: 3 Sentinels know each other, 1 of"}, false}
	d.run(t)
}

// TestGroup: what Sentinels know, judged.
func TestGroup(t *testing.T) {
	t.Parallel()
	well := group{primary: "a:1", quorum: 2, sentinels: 3, replicas: 1}
	for want, groups := range map[string][]group{
		"ok redis: n: 3 Sentinels":                             {well, well, well},
		"warning redis: n: the primary a:1 has no replica":     {{primary: "a:1", quorum: 2, sentinels: 3}},
		"problem redis: n: the Sentinels say that the primary": {{primary: "a:1", quorum: 2, sentinels: 3, replicas: 1, down: true}},
		"warning redis: n: without one Sentinel there is no":   {{primary: "a:1", quorum: 1, sentinels: 2, replicas: 1}},
		"problem redis: n: Sentinels name different primaries": {well, {primary: "b:1", quorum: 2, sentinels: 3, replicas: 1}},
	} {
		var text strings.Builder
		d := doctor{Options: Options{Report: func(f Finding) error {
			_, err := fmt.Fprintf(&text, "%s %s: %s\n", f.Status, f.Area, f.Text)
			return err
		}}}
		d.group("n", groups, 0)
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s is not in %s", want, text.String())
		}
	}
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, redistest.Options{})
	d := diagnosis{"Cluster", onRedis("", func(r *engines.RedisEngine) { r.ClusterAddress, r.Partitions = []string{c.Addresses()[0]}, 4 }), []string{"ok redis: engine.redis: version "}, true}
	d.run(t)
	for _, node := range c.Nodes { // all forget who has the slot
		node.Do("CONFIG", "SET", "cluster-require-full-coverage", "yes")
		node.Do("CLUSTER", "DELSLOTS", "7")
	}
	d.want, d.ok = []string{`problem redis: engine.redis: the state of the Cluster is "fail", 16383 of 16384 slots are served`}, false
	d.run(t)
}

func TestNATS(t *testing.T) {
	t.Parallel()
	const well = "ok nats: broker.nats: version "
	on := func(url string) func(*config.Config, *Options) {
		return func(c *config.Config, _ *Options) {
			c.Broker.Enabled, c.Broker.Type, c.Broker.NATS.URL = true, engines.TypeNATS, url
		}
	}
	open := natstest.Start(t)
	locked := natstest.StartWith(t, func(o *natsserver.Options) {
		o.MaxPayload = 1000
		o.Users = []*natsserver.User{{Username: "gyro", Password: "hush"}, {Username: "narrow", Password: "hush", Permissions: &natsserver.Permissions{
			Publish: &natsserver.SubjectPermission{Allow: []string{"centrifugo.client.>"}},
		}}}
	})
	host := strings.TrimPrefix(locked, "nats://")
	for _, d := range []diagnosis{
		{"open", on(open), []string{well}, true},
		{"nobody", on(locked), []string{"problem nats: broker.nats: ", "Authorization", "or correct broker.nats."}, false},
		{"wrong password", on("nats://gyro:hush-wrong@" + host), []string{"problem nats: broker.nats: ", "Authorization"}, false},
		{"small payloads", on("nats://gyro:hush@" + host), []string{well, "warning nats: broker.nats: it refuses messages of more than 1000 bytes", "websocket.message_size_limit less"}, true},
		{"narrow rights", on("nats://narrow:hush@" + host), []string{
			well, "problem nats: broker.nats: a message that is published does not come back", "ermissions", "-> allow the user of broker.nats.url to publish and subscribe to centrifugo.>",
		}, false},
	} {
		d.run(t)
	}
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	const well = "ok postgresql: broker.postgres.dsn: version "
	db := db.Server(t)
	name, err := db.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Do(t.Context(), name, "CREATE ROLE reader LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC"); err != nil {
		t.Fatal(err)
	}
	standby, err := db.Standby()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(standby.Stop)
	on := func(dsn string, edit func(*engines.Postgres)) func(*config.Config, *Options) {
		return func(c *config.Config, _ *Options) {
			c.Broker.Enabled, c.Broker.Type, c.Broker.Postgres.DSN = true, engines.TypePostgres, dsn
			if edit != nil {
				edit(&c.Broker.Postgres)
			}
		}
	}
	right := db.DSN(name)
	reader := strings.Replace(right, "gyro@", "reader@", 1)
	for _, d := range []diagnosis{
		{"right", on(right, nil), []string{well, " clocks: the clock of broker.postgres.dsn "}, true},
		{"no database", on(db.DSN("nothing"), nil), []string{"problem postgresql: broker.postgres.dsn: ", "does not exist", "correct broker.postgres.dsn\n"}, false},
		{"no TLS", on(right, func(p *engines.Postgres) { p.TLS = material.TLS{Enabled: true} }), []string{"problem postgresql: broker.postgres.dsn: ", "refused TLS"}, false},
		{"no rights", on(reader, nil), []string{`user "reader" may not create tables in schema "public"`, "set broker.postgres.skip_schema_init"}, false},
		{"no rights, none needed", on(reader, func(p *engines.Postgres) { p.SkipSchemaInit = true }), []string{well}, true},
		{"large pool", on(right, func(p *engines.Postgres) { p.PoolSize = 1000 }), []string{"warning postgresql: broker.postgres.dsn: it has ", "broker.postgres.pool_size less"}, true},
		{"standby as primary", on(standby.DSN(name), nil), []string{"problem postgresql: broker.postgres.dsn: it is a standby"}, false},
		{"standby", on(right, func(p *engines.Postgres) { p.Replica.Enabled, p.Replica.DSN = true, []string{standby.DSN(name), right} }), []string{
			well, "ok postgresql: broker.postgres.replica.dsn[0]: version ", "warning postgresql: broker.postgres.replica.dsn[1]: it is no standby",
		}, true},
		{"notifications", on(right, func(p *engines.Postgres) { p.UseNotify, p.NotifyDSN = true, "postgres://u:hush@127.0.0.1:1/db" }), []string{
			well, "problem postgresql: broker.postgres.notify_dsn: ", "correct broker.postgres.notify_dsn\n",
		}, false},
		{"fan-out", on(right, func(p *engines.Postgres) {
			p.BrokerFanout.Enabled, p.BrokerFanout.Redis.Address = true, []string{"127.0.0.1:1"}
		}), []string{well, "problem redis: broker.postgres.broker_fanout.redis: ", "correct broker.postgres.broker_fanout.redis.address\n"}, false},
		{"clock", func(c *config.Config, o *Options) {
			on(right, nil)(c, o)
			o.Ahead = 90 * time.Minute
		}, []string{"problem clocks: the clock of broker.postgres.dsn differs by -1h"}, false},
	} {
		d.run(t)
	}
}

// TestSections: every section that connects to something is looked at, and those that are not in use are not.
func TestSections(t *testing.T) {
	t.Parallel()
	const nowhere = "127.0.0.1:1"
	text, _ := examine(t, func(c *config.Config, _ *Options) {
		c.Controller.Enabled, c.Controller.Type, c.Controller.Postgres.DSN = true, engines.TypePostgres, "postgres://u:hush@"+nowhere+"/db"
		b := engines.NamedBroker{Name: "b", Broker: c.Broker}
		b.Enabled, b.Type, b.NATS.URL = true, engines.TypeNATS, "nats://"+nowhere
		unused := b
		unused.Name, unused.Enabled = "unused", false
		c.Brokers = []engines.NamedBroker{b, unused}
		p := engines.NamedPresenceManager{Name: "p", PresenceManager: c.PresenceManager}
		p.Enabled, p.Type, p.Redis.Address = true, engines.TypeRedis, []string{nowhere}
		c.PresenceManagers = []engines.NamedPresenceManager{p}
		m := engines.NamedMapBroker{Name: "m", Enabled: true, MapBroker: c.MapBroker}
		m.Type, m.Redis.Address = engines.TypeRedis, []string{nowhere}
		c.MapBrokers = []engines.NamedMapBroker{m}
		c.MapBroker.Type, c.MapBroker.Redis.Address = engines.TypeRedis, []string{"no channel is a map of it"}
		c.SharedPoll.Notification.Enabled, c.SharedPoll.Notification.Type = true, engines.TypeRedis
		c.SharedPoll.Notification.Redis.Address = []string{nowhere}
	})
	for _, want := range []string{
		"nats: brokers[0](b).nats: ", "redis: presence_managers[0](p).redis: ", "redis: map_brokers[0](m).redis: ",
		"postgresql: controller.postgres.dsn: ", "shared polls: shared_poll.notification.redis.address: ",
	} {
		if !strings.Contains(text, "problem "+want) {
			t.Errorf("%s is not there:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "problem "); n != 5 || strings.Contains(text, "hush") {
		t.Errorf("%d problems:\n%s", n, text)
	}
}

// consumer has one consumer in the configuration.
func consumer(kind string, edit func(*config.Consumer)) func(*config.Config, *Options) {
	return func(c *config.Config, _ *Options) {
		one := config.Consumer{Name: "c", Enabled: true, Type: kind}
		one.PostgreSQL.NumPartitions, one.PostgreSQL.PartitionSelectLimit, one.PostgreSQL.PartitionPollInterval = 1, 10, time.Second
		one.Kafka.MaxPollRecords, one.Kafka.ConsumerGroup = 1, "g"
		one.RedisStream.NumWorkers, one.RedisStream.VisibilityTimeout, one.RedisStream.ConsumerGroup = 1, time.Second, "g"
		one.AWSSQS.MaxNumberOfMessages, one.AWSSQS.MaxConcurrency, one.AWSSQS.WaitTime = 1, 1, time.Second
		edit(&one)
		c.Consumers = []config.Consumer{one}
	}
}

func TestConsumerOfPostgreSQL(t *testing.T) {
	t.Parallel()
	db := db.Server(t)
	name, err := db.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Do(t.Context(), name, "CREATE TABLE box (id bigserial, method text, payload jsonb, partition bigint)"); err != nil {
		t.Fatal(err)
	}
	table := func(dsn, table string) func(*config.Config, *Options) {
		return consumer(config.TypePostgreSQL, func(c *config.Consumer) { c.PostgreSQL.DSN, c.PostgreSQL.OutboxTableName = dsn, table })
	}
	for _, d := range []diagnosis{
		{"table", table(db.DSN(name), "box"), []string{
			"ok consumers: consumers[0](c).postgresql: it can be used", "ok postgresql: consumers[0](c).postgresql.dsn: version", " clocks: the clock of consumers[0](c).postgresql.dsn ",
		}, true},
		{"no table", table(db.DSN(name), "other"), []string{"problem consumers: consumers[0](c).postgresql: outbox_table_name: ", "correct consumers[0](c).postgresql.outbox_table_name\n"}, false},
		{"no database", table("postgres://u:hush@127.0.0.1:1/db", "box"), []string{"problem consumers: ", "correct consumers[0](c).postgresql.dsn\n"}, false},
	} {
		d.run(t)
	}
}

func TestConsumers(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{})
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "events"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	aws := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"no such queue"}`))
	}))
	t.Cleanup(aws.Close)
	topic := func(topic string) func(*config.Config, *Options) {
		return consumer(config.TypeKafka, func(c *config.Consumer) { c.Kafka.Brokers, c.Kafka.Topics = kafka.ListenAddrs(), []string{topic} })
	}
	redis.Do("SET", "text", "x")
	stream := func(stream string) func(*config.Config, *Options) {
		return consumer(config.TypeRedisStream, func(c *config.Consumer) {
			c.RedisStream.Address, c.RedisStream.Streams = []string{redis.Addr()}, []string{stream}
		})
	}
	for _, d := range []diagnosis{
		{"topic", topic("events"), []string{"ok consumers: consumers[0](c).kafka: it can be used"}, true},
		{"no topic", topic("other"), []string{"problem consumers: consumers[0](c).kafka: topics: other: ", "correct consumers[0](c).kafka.topics\n"}, false},
		{"stream", stream("events"), []string{"ok consumers: consumers[0](c).redis_stream: it can be used", "ok redis: consumers[0](c).redis_stream: version "}, true},
		{"no stream", stream("text"), []string{"WRONGTYPE", "correct consumers[0](c).redis_stream.streams\n"}, false},
		{"no queue", consumer(config.TypeAWSSQS, func(c *config.Consumer) {
			c.AWSSQS.LocalstackEndpoint, c.AWSSQS.Region, c.AWSSQS.Queues = aws.URL, "eu-central-1", []string{aws.URL + "/1/q"}
		}), []string{"problem consumers: consumers[0](c).aws_sqs: queues: queue ", "correct consumers[0](c).aws_sqs.queues\n"}, false},
		{"no credentials", consumer(config.TypeGooglePubSub, func(c *config.Consumer) {
			g := &c.GooglePubSub
			g.ProjectID, g.Subscriptions, g.MaxOutstandingMessages, g.MaxOutstandingBytes = "p", []string{"s"}, 1, 1
			g.AuthMechanism, g.CredentialsFile = "service_account", filepath.Join(t.TempDir(), "none.json")
		}), []string{"problem consumers: consumers[0](c).google_pub_sub: credentials: ", "and at the credentials that consumers[0](c).google_pub_sub uses"}, false},
	} {
		d.run(t)
	}
}
