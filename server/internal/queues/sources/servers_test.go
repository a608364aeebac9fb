package sources

import (
	"context"
	"fmt"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/gyrohq/gyro/broker/postgres/postgrestest"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// envelope is a publication.
const envelope = `{"method":"publish","payload":{"channel":"a","data":1}}`

var off = options{"enabled": false}

// postgresQueue has a server that wants TLS, a certificate and a password.
func postgresQueue(t *testing.T, ca *authority) testQueue {
	cert, key := ca.pair()
	s := postgrestest.New(t, postgrestest.Options{
		Files: map[string][]byte{
			"server.crt": []byte(cert), "server.key": []byte(key), "ca.crt": []byte(ca.pem),
			"pg_hba.conf": []byte("local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n"),
		},
		Settings: []string{"fsync=off", "ssl=on", "ssl_ca_file=ca.crt"},
	})
	conn := must(pgx.Connect(t.Context(), s.Socket("postgres")))
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, statement := range []string{
		"ALTER USER gyro PASSWORD 'secret'",
		"CREATE TABLE outbox (id bigserial PRIMARY KEY, method text NOT NULL, payload jsonb NOT NULL, partition integer NOT NULL DEFAULT 0)",
	} {
		must(conn.Exec(t.Context(), statement))
	}
	with := func(password string) options {
		return options{
			// The object tls counts more than sslmode.
			"dsn":               fmt.Sprintf("postgres://gyro:%s@127.0.0.1:%d/postgres?sslmode=disable", password, s.Port()),
			"outbox_table_name": "outbox", "partition_poll_interval": "1h", "partition_notification_channel": "outbox",
		}
	}
	return testQueue{
		typ: "postgresql", blamed: "dsn", right: []options{with("secret")},
		add: func() {
			wait.Until(t, "a listener", func() (listens bool) {
				err := conn.QueryRow(t.Context(), "SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'LISTEN%'").Scan(&listens)
				return err == nil && listens
			})
			must(conn.Exec(t.Context(), "INSERT INTO outbox (method, payload) VALUES ('', $1)", envelope))
			must(conn.Exec(t.Context(), "SELECT pg_notify('outbox', '0')"))
		},
		wrong: []mistake{
			{"tls.enabled: ", with("secret").with(options{"tls": off})},
			{"dsn: failed to connect", with("hush")},
			{"dsn: it does not parse", with("secret").with(options{"dsn": "postgres://u:hush@h:port/x"})},
			{"partition_notification_dsn:", with("secret").with(options{"partition_notification_dsn": "postgres://u:hush@h:port/x"})},
		},
	}
}

// kafkaQueue has a cluster that wants TLS, a certificate and a password, and another one without TLS.
func kafkaQueue(t *testing.T, ca *authority) testQueue {
	cluster := func(o ...kfake.Opt) *kfake.Cluster {
		c := must(kfake.NewCluster(append(o, kfake.NumBrokers(1), kfake.SeedTopics(1, "events"))...))
		t.Cleanup(c.Close)
		return c
	}
	secure, bare := cluster(kfake.TLS(ca.server()), kfake.EnableSASL(), kfake.Superuser("PLAIN", "p", "secret"),
		kfake.Superuser("SCRAM-SHA-256", "s2", "secret"), kfake.Superuser("SCRAM-SHA-512", "s5", "secret")), cluster()
	producer := must(kgo.NewClient(kgo.SeedBrokers(secure.ListenAddrs()...), kgo.DialTLSConfig(ca.server()),
		kgo.SASL(plain.Auth{User: "p", Pass: "secret"}.AsMechanism())))
	t.Cleanup(producer.Close)
	with := func(mechanism, user, password string) options {
		return options{
			"brokers": secure.ListenAddrs(), "topics": []string{"events"}, "consumer_group": "gyro", "fetch_max_wait": "50ms",
			"dial_timeout": "30s", "sasl_mechanism": mechanism, "sasl_user": user, "sasl_password": password,
		}
	}
	return testQueue{
		typ: "kafka", blamed: "brokers, sasl_user, sasl_password",
		right: []options{with("plain", "p", "secret"), with("scram-sha-256", "s2", "secret"), with("scram-sha-512", "s5", "secret")},
		add: func() {
			if err := producer.ProduceSync(t.Context(), &kgo.Record{Topic: "events", Value: []byte(envelope)}).FirstErr(); err != nil {
				t.Error(err)
			}
		},
		wrong: []mistake{
			{"tls.enabled: ", with("plain", "p", "secret").with(options{"tls": off})},
			{"brokers, sasl_user, sasl_password, tls.cert_pem: ", with("plain", "p", "hush")},
			{"brokers, sasl_user, sasl_password, tls.cert_pem: ", with("scram-sha-512", "s5", "hush")},
			{"brokers, sasl_user, sasl_password, tls.cert_pem: ", with("scram-sha-256", "nobody", "hush")},
			{"sasl_mechanism: ", with("", "", "")},
			{"brokers: ", with("plain", "p", "secret").with(options{"brokers": []string{"127.0.0.1:1"}, "dial_timeout": "100ms"})},
			{"brokers: ", with("plain", "p", "secret").with(options{"brokers": bare.ListenAddrs(), "dial_timeout": "100ms"})},
		},
	}
}

// redisFiles are the files of a Redis server with TLS.
func redisFiles(t *testing.T, ca *authority) *redistest.TLS {
	dir := t.TempDir()
	cert, key := ca.pair()
	files := redistest.TLS{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), CA: filepath.Join(dir, "ca.pem")}
	for name, content := range map[string]string{files.Cert: cert, files.Key: key, files.CA: ca.pem} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &files
}

// redisOptions are the options of a Redis.
func redisOptions(o options) options {
	return options{"streams": []string{"events"}, "consumer_group": "gyro", "password": "secret", "connect_timeout": "1m"}.with(o)
}

// redisQueue has a server that wants TLS, a certificate and a password.
func redisQueue(t *testing.T, ca *authority) testQueue {
	s, bare := redistest.Standalone(t, redistest.Options{TLS: redisFiles(t, ca), Password: "secret"}), redistest.Standalone(t, redistest.Options{})
	with := func(address string) options { return redisOptions(options{"address": address}) }
	return testQueue{
		typ: "redis_stream", blamed: "address",
		right: []options{with(s.Addr()), with("rediss://:secret@" + s.Addr()).with(options{"password": ""}), with(s.Addr()).with(options{"force_resp2": true})},
		add:   func() { s.Do("XADD", "events", "*", "payload", envelope) },
		wrong: []mistake{
			{"password: ", with(s.Addr()).with(options{"password": "hush"})},
			{"password: ", with("rediss://:hush@" + s.Addr()).with(options{"password": ""})},
			{"password: ", with(s.Addr()).with(options{"password": ""})},
			{"address: ", with(bare.Addr()).with(options{"connect_timeout": "1s"})}, // which waits for the end of a command
			{"address: ", with("127.0.0.1:1")},
			{"address[0]: ", with("http://x")},
		},
	}
}

// sentinelQueue has Sentinels that want TLS, as their servers do.
func sentinelQueue(t *testing.T, ca *authority) testQueue {
	s := redistest.NewSentinel(t, redistest.Options{TLS: redisFiles(t, ca), Password: "secret"})
	cert, key := ca.pair()
	own := options{"enabled": true, "server_ca_pem": ca.pem, "cert_pem": cert, "key_pem": key}
	right := redisOptions(options{
		"sentinel_address": strings.Join(s.Addresses(), ","), "sentinel_master_name": s.Master, "sentinel_tls": own,
	})
	return testQueue{
		typ: "redis_stream", blamed: "sentinel_address", right: []options{right},
		add: func() { s.Primary().Do("XADD", "events", "*", "payload", envelope) },
		wrong: []mistake{
			{"sentinel_tls.server_ca_pem: ", right.with(options{"sentinel_tls": own.with(options{"server_ca_pem": newAuthority(t).pem})})},
			{"sentinel_tls.cert_pem: ", right.with(options{"sentinel_tls": own.with(options{"cert_pem": "x"})})},
			{"sentinel_master_name: ", right.with(options{"sentinel_master_name": "other"})},
		},
	}
}

// clusterQueue has a Redis Cluster whose nodes want TLS.
func clusterQueue(t *testing.T, ca *authority) testQueue {
	c := redistest.NewCluster(t, redistest.Options{TLS: redisFiles(t, ca), Password: "secret"})
	owner := c.Nodes[c.Owner(c.Slot("events"))]
	return testQueue{
		typ: "redis_stream", blamed: "cluster_address",
		right: []options{redisOptions(options{"cluster_address": strings.Join(c.Addresses(), ",")}), redisOptions(options{"address": c.Addresses()[0]})},
		add:   func() { owner.Do("XADD", "events", "*", "payload", envelope) },
		wrong: []mistake{{"password: ", redisOptions(options{"cluster_address": c.Addresses()[1], "password": "hush"})}},
	}
}

// startNATS starts a server with JetStream, and returns a function that adds a message to its stream EVENTS.
func startNATS(t *testing.T, o *server.Options, options ...nats.Option) (url string, add func()) {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog, o.JetStream, o.StoreDir = "127.0.0.1", server.RANDOM_PORT, true, true, true, t.TempDir()
	o.TLSTimeout, o.AuthTimeout = wait.Limit.Seconds(), wait.Limit.Seconds()
	s := must(server.NewServer(o))
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(wait.Limit) {
		t.Fatal("the NATS server does not get ready")
	}
	conn := must(nats.Connect(s.ClientURL(), append(options, nats.Timeout(wait.Limit))...))
	t.Cleanup(conn.Close)
	js := must(jetstream.New(conn))
	must(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events"}, Storage: jetstream.MemoryStorage}))
	return s.ClientURL(), func() { must(js.Publish(t.Context(), "events", []byte(envelope))) }
}

func natsOptions(url string, o options) options {
	return options{"url": url, "stream_name": "EVENTS", "durable_consumer_name": "gyro"}.with(o)
}

// natsQueue has a server that wants TLS, a certificate and a user, and others without TLS or with tokens.
func natsQueue(t *testing.T, ca *authority) testQueue {
	tokens, _ := startNATS(t, &server.Options{Authorization: "secret"}, nats.Token("secret"))
	url, add := startNATS(t, &server.Options{TLSConfig: ca.server(), Username: "gyro", Password: "secret"},
		nats.Secure(ca.server()), nats.UserInfo("gyro", "secret"))
	user := func(password string) options { return options{"username": "gyro", "password": password} }
	return testQueue{
		typ: "nats_jetstream", blamed: "url",
		right: []options{natsOptions(url, user("secret")), natsOptions("tls://gyro:secret@"+must(neturl.Parse(url)).Host, nil)},
		add:   add,
		wrong: []mistake{
			{"tls.server_ca_pem: ", natsOptions(url, user("secret")).with(options{"tls": off})}, // the server asks for TLS
			{"username, password: ", natsOptions(url, user("hush"))},
			{"username, password: ", natsOptions(url, nil)},
			{"token: ", natsOptions(tokens, options{"token": "hush", "tls": off})},
			{"tls.enabled: ", natsOptions(tokens, options{"token": "secret"})},
			{"url: ", natsOptions("nats://127.0.0.1:1", nil)},
			{"credentials_file: ", natsOptions(url, options{"credentials_file": "/nowhere"})},
			{"stream_name: consumer gyro o", natsOptions(url, user("secret")).with(options{"stream_name": "OTHER"})},
		},
	}
}

// credentialsQueue has a server that wants TLS and knows users by the signature of their account.
func credentialsQueue(t *testing.T, ca *authority) testQueue {
	operator, account, system, user := must(nkeys.CreateOperator()), must(nkeys.CreateAccount()), must(nkeys.CreateAccount()), must(nkeys.CreateUser())
	oc := jwt.NewOperatorClaims(must(operator.PublicKey()))
	oc.SystemAccount = must(system.PublicKey())
	must(oc.Encode(operator))
	ac, sc := jwt.NewAccountClaims(must(account.PublicKey())), jwt.NewAccountClaims(must(system.PublicKey()))
	ac.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	resolver := new(server.MemAccResolver)
	for _, c := range []*jwt.AccountClaims{ac, sc} {
		if err := resolver.Store(c.Subject, must(c.Encode(operator))); err != nil {
			t.Fatal(err)
		}
	}
	file := func(account nkeys.KeyPair) string {
		token := must(jwt.NewUserClaims(must(user.PublicKey())).Encode(account))
		path := filepath.Join(t.TempDir(), "user.creds")
		if err := os.WriteFile(path, must(jwt.FormatUserConfig(token, must(user.Seed()))), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	right, wrong := file(account), file(must(nkeys.CreateAccount()))
	url, add := startNATS(t, &server.Options{
		TLSConfig: ca.server(), TrustedOperators: []*jwt.OperatorClaims{oc}, AccountResolver: resolver, SystemAccount: oc.SystemAccount,
	}, nats.Secure(ca.server()), nats.UserCredentials(right))
	return testQueue{
		typ: "nats_jetstream", blamed: "url",
		// The file counts more than the other ways.
		right: []options{natsOptions(url, options{"credentials_file": right, "username": "u", "password": "hush", "token": "hush"})},
		add:   add,
		wrong: []mistake{{"credentials_file: ", natsOptions(url, options{"credentials_file": wrong})}},
	}
}
