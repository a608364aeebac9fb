package config

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/server/internal/testkit/certtest"
)

// TestValidateEngines has a row per rule for engines: what the configuration is, and what the
// error says.
func TestValidateEngines(t *testing.T) {
	const (
		nats      = `"broker":{"enabled":true,"type":"nats"}`
		namedMaps = `"map_brokers":[{"name":"m1","enabled":true},{"name":"off"},{"name":"pg","enabled":true,"type":"postgres","postgres":{"dsn":"x"}}]`
		named     = `"brokers":[{"name":"n1","enabled":true,"type":"nats"},{"name":"off","type":"redis"}]`
	)
	chat := func(rest, options string) string {
		return `{` + rest + `,"channel":{"namespaces":[{"name":"chat",` + options + `}]}}`
	}
	const (
		onPostgres     = `"broker":{"enabled":true,"type":"postgres","postgres":{"dsn":"x"}}`
		mapsOnPostgres = `"map_broker":{"type":"postgres","postgres":{"dsn":"x"}}`
	)
	pg := func(keys string) string {
		if keys != "" {
			keys = "," + keys
		}
		return `{"broker":{"enabled":true,"type":"postgres","postgres":{"dsn":"x"` + keys + `}}}`
	}
	many := strings.Repeat(`{"name":"%d0"},`, 65)
	for i := range 65 {
		many = strings.Replace(many, "%d", fmt.Sprint(i), 1)
	}
	for _, tt := range []struct{ text, want string }{
		{`{"engine":{"type":"redis"}}`, ""},
		{`{"user_status":{"enabled":true}}`, ""},
		{`{"user_status":{"enabled":true,"redis":{"io_timeout":"-1s"}}}`, ""}, // not in use
		{`{"user_status":{"enabled":true,"storage_type":"redis","redis":{"io_timeout":"-1s"}}}`, "user_status.redis.io_timeout: -1s is not positive"},
		{`{"user_status":{"enabled":true,"redis":{"sentinel_address":["a:1"]}}}`, "user_status.redis.sentinel_master_name: is required"},
		{`{"user_status":{"storage_type":"disk"}}`, "user_status.storage_type"},
		{`{"user_status":{"expire_interval":"1s"}}`, "user_status.expire_interval: 1s is less than 1m"},
		{`{"user_status":{"enabled":true,"redis":{"reuse_from_engine":true}}}`, "user_status.redis.reuse_from_engine: engine.type is not redis"},
		{`{"engine":{"type":"redis"},"user_status":{"enabled":true,"redis":{"reuse_from_engine":true}}}`, ""},
		{`{"user_status":{"enabled":true},` + nats + `}`, "user_status.storage_type: is required"},
		{`{"user_status":{"enabled":true,"storage_type":"memory"},` + nats + `}`, ""},
		{`{"user_status":{"enabled":true,"redis":{"address":["10.0.0.1:6379"]}},` + nats + `}`, ""},
		{`{"engine":{"redis":{"io_timeout":"-1s","presence_ttl":"1ms"}}}`, ""}, // not in use
		{`{"engine":{"type":"redis","redis":{"io_timeout":"-1s"}}}`, "engine.redis.io_timeout: -1s is not positive"},
		{`{"engine":{"type":"redis","redis":{"connect_timeout":"-1s"}}}`, "engine.redis.connect_timeout: -1s"},
		{`{"engine":{"type":"redis","redis":{"presence_ttl":"999ms"}}}`, "engine.redis.presence_ttl: 999ms is less than 1s"},
		{`{"engine":{"type":"redis","redis":{"start_timeout":"2h"}}}`, "engine.redis.start_timeout: 2h0m0s is more than 1h0m0s"},
		{`{"engine":{"type":"redis","redis":{"start_timeout":"-2s"}}}`, "engine.redis.start_timeout: -2s is less than 0s"},
		{`{"engine":{"type":"redis","redis":{"db":-1}}}`, "engine.redis.db: -1 is negative"},
		{`{"engine":{"type":"redis","redis":{"sentinel_address":["a:1"]}}}`, "engine.redis.sentinel_master_name: is required"},
		{`{"engine":{"type":"redis","redis":{"sentinel_address":["a:1"],"cluster_address":["a:1"]}}}`, ""},
		{`{"engine":{"type":"redis","redis":{"tls":{"enabled":true,"cert_pem":"x"}}}}`, "engine.redis.tls: cert_pem, key_pem"},
		{`{"engine":{"type":"redis","redis":{"sentinel_tls":{"enabled":true,"server_ca_pem":"x"}}}}`, "engine.redis.sentinel_tls: server_ca_pem"},
		{`{"broker":{"enabled":true,"type":"redis","redis":{"io_timeout":"-1s"}}}`, "broker.redis.io_timeout"},
		{`{` + nats + `}`, ""},
		{`{"broker":{"enabled":true,"type":"redisnats"}}`, `broker.type: "redisnats" is not one of`},
		{`{"broker":{"enabled":true,"type":"nats","nats":{"dial_timeout":"-1s"}}}`, "broker.nats.dial_timeout: -1s is not positive"},
		{`{"broker":{"enabled":true,"type":"nats","nats":{"write_timeout":"-1s"}}}`, "broker.nats.write_timeout"},
		{`{"broker":{"enabled":true,"type":"nats","nats":{"start_timeout":"61m"}}}`, "broker.nats.start_timeout: 1h1m0s"},
		{`{"broker":{"enabled":true,"type":"nats","nats":{"tls":{"enabled":true,"server_ca_pem":"x"}}}}`, "broker.nats.tls: server_ca_pem"},
		{`{"presence_manager":{"enabled":true,"type":"redis","redis":{"presence_ttl":"-1s"}}}`, "presence_manager.redis.presence_ttl: -1s"},
		{`{"presence_manager":{"enabled":true,"type":"nats"}}`, `presence_manager.type: "nats"`},

		{`{"brokers":[{"name":"a b","enabled":true}]}`, `brokers[0](a b): name "a b" does not match`},
		{`{"brokers":[{"name":"default"}]}`, `brokers[0](default): the name default is reserved`},
		{`{"brokers":[{"name":"aa"},{"name":"aa"}]}`, `brokers[1](aa): name "aa" is given twice`},
		{`{"brokers":[{"name":"aa","enabled":true,"type":"nats","nats":{"dial_timeout":"-1s"}}]}`, "brokers[0](aa).nats.dial_timeout"},
		{`{"brokers":[{"name":"aa","type":"x"}]}`, `brokers[0](aa).type: "x"`},
		{`{"brokers":[` + many[:len(many)-1] + `]}`, "brokers: 65 elements are more than 64"},
		{`{"presence_managers":[{"name":"aa","enabled":true,"type":"redis","redis":{"presence_ttl":"1ms"}}]}`, "presence_managers[0](aa).redis.presence_ttl"},
		{`{"presence_managers":[{"name":"aa"},{"name":"aa"}]}`, `presence_managers[1](aa): name "aa" is given twice`},
		{chat(named, `"broker_name":"n1"`), ""},
		{chat(named, `"broker_name":"n2"`), `channel.namespaces[0](chat).broker_name: there is no enabled element "n2" of brokers`},
		{chat(named, `"broker_name":"off"`), `broker_name: there is no enabled element "off"`},
		{chat(named, `"presence_manager_name":"n1"`), `presence_manager_name: there is no enabled element "n1" of presence_managers`},
		{chat(`"presence_managers":[{"name":"p1","enabled":true,"type":"redis"}]`, `"presence_manager_name":"p1"`), ""},

		{chat(named, `"broker_name":"n1",`+hist), "channel.namespaces[0](chat).history_size: needs history, which the broker"},
		{chat(named, `"broker_name":"n1","allow_recovery":true`), "(chat).allow_recovery: needs history"},
		{chat(nats, `"force_positioning":true`), "(chat).force_positioning: needs history"},
		{chat(nats, `"allow_positioning":true`), "(chat).allow_positioning: needs history"},
		{chat(nats, `"broker_name":"","presence":true,"join_leave":true`), ""},
		{`{` + nats + `,"channel":{"without_namespace":{` + hist + `}}}`, "channel.without_namespace.history_size: needs history"},
		{chat(nats+`,"brokers":[{"name":"mem","enabled":true}]`, `"broker_name":"mem",`+hist), ""},

		{pg(``), ""},
		{`{"broker":{"type":"postgres"}}`, ""}, // not in use
		{`{"broker":{"enabled":true,"type":"postgres"}}`, "broker.postgres.dsn: is required"},
		{`{"map_broker":{"type":"postgres"}}`, "map_broker.postgres.dsn: is required"},
		{`{"map_broker":{"type":"redis","redis":{"io_timeout":"-1s"}}}`, "map_broker.redis.io_timeout: -1s is not positive"},
		{`{"map_broker":{"type":"redis","cache":{"enabled":true}}}`, ""},
		{`{"map_broker":{"cache":{"idle_timeout":"-1s"}}}`, ""}, // not in use
		{`{"map_broker":{"cache":{"enabled":true}}}`, ""},       // no effect
		{`{"map_broker":{"type":"redis","redis":{"skip_pub_sub":true},"cache":{"enabled":true}}}`, "map_broker.cache.enabled: needs the changes that redis.skip_pub_sub"},
		{`{"map_broker":{"type":"redis","cache":{"enabled":true,"idle_timeout":"1ms"}}}`, "map_broker.cache.idle_timeout: 1ms is not between 1s and 24h0m0s"},
		{`{"map_broker":{"type":"redis","cache":{"enabled":true,"sync_interval":"2h"}}}`, "map_broker.cache.sync_interval: 2h0m0s is not between"},
		{`{"map_broker":{"type":"redis","cache":{"enabled":true,"load_timeout":"1ms"}}}`, "map_broker.cache.load_timeout: 1ms is not between"},
		{`{"map_broker":{"type":"redis","cache":{"max_channels":-1}}}`, "map_broker.cache.max_channels: -1 is less than 1"},
		{`{"map_broker":{"type":"redis","cache":{"max_bytes":1000}}}`, "map_broker.cache.max_bytes: 1000 is less than 1048576"},
		{`{"map_broker":{"type":"redis","cache":{"sync_concurrency":2000}}}`, "map_broker.cache.sync_concurrency: 2000 is more than 1024"},
		{`{"map_brokers":[{"name":"m1","enabled":true,"cache":{"enabled":true}}]}`, ""},
		{`{"map_brokers":[{"name":"m1","type":"postgres"}]}`, ""}, // not in use
		{`{"map_brokers":[{"name":"m1","enabled":true,"type":"postgres"}]}`, "map_brokers[0](m1).postgres.dsn: is required"},
		{`{"map_brokers":[{"name":"m1","enabled":true,"type":"nats"}]}`, `map_brokers[0](m1).type: "nats" is not one of`},
		{`{"map_brokers":[{"name":"m1"},{"name":"m1"}]}`, `map_brokers[1](m1): name "m1" is given twice`},
		{`{"map_brokers":[{"name":"default"}]}`, `map_brokers[0](default): the name default is reserved`},
		{`{"map_brokers":[` + many[:len(many)-1] + `]}`, "map_brokers: 65 elements are more than 64"},
		{chat(namedMaps, `"subscription_type":"map","map":{"mode":"persistent","broker_name":"m1"}`), ""},
		{chat(namedMaps, `"subscription_type":"map","map":{"mode":"persistent","broker_name":"m2"}`), `channel.namespaces[0](chat).map.broker_name: there is no enabled element "m2" of map_brokers`},
		{chat(namedMaps, `"subscription_type":"map","map":{"mode":"persistent","broker_name":"off"}`), `map.broker_name: there is no enabled element "off"`},
		{chat(namedMaps, `"subscription_type":"map","map":{"mode":"persistent","broker_name":"pg","stream_ttl":"200h","meta_ttl":"300h"}`), "(chat).map.stream_ttl: 200h0m0s is longer"},
		{`{"map_broker":{"type":"postgres","postgres":{"dsn":"x","ttl_check_interval":"2h"}}}`, "map_broker.postgres.ttl_check_interval: 2h0m0s is not between"},
		{`{"brokers":[{"name":"aa","enabled":true,"type":"postgres"}]}`, "brokers[0](aa).postgres.dsn: is required"},
		{`{"controller":{"enabled":true}}`, `controller.type: "" is not postgres`},
		{`{"controller":{"enabled":true,"type":"postgres"}}`, "controller.postgres.dsn: is required"},
		{`{"controller":{"enabled":true,"type":"postgres","postgres":{"dsn":"x"}}}`, ""},
		{`{"controller":{"enabled":true,"type":"postgres","postgres":{"dsn":"x","poll_interval":"-1s"}}}`, "controller.postgres.poll_interval: -1s is not between 1ms and 1h0m0s"},
		{`{"controller":{"enabled":true,"type":"postgres","postgres":{"dsn":"x","partition_cleanup_interval":"25h"}}}`, "controller.postgres.partition_cleanup_interval: 25h"},
		{pg(`"pool_size":1`), "broker.postgres.pool_size: 1 is less than 2"},
		{pg(`"num_shards":257`), "broker.postgres.num_shards: 257 is more than 256"},
		{pg(`"table_prefix":"Chat"`), `broker.postgres.table_prefix: "Chat" is not lower-case`},
		{pg(`"table_prefix":"a23456789b23456789c23"`), `broker.postgres.table_prefix: "a23456789b`},
		{pg(`"notify_dsn":"x"`), "broker.postgres.notify_dsn: needs use_notify"},
		{pg(`"cleanup_interval":"-1s"`), "broker.postgres.cleanup_interval: -1s is not between"},
		{pg(`"outbox":{"poll_interval":"2h"}`), "broker.postgres.outbox.poll_interval: 2h"},
		{pg(`"stream_retention":"-1s"`), "broker.postgres.stream_retention: -1s is not positive"},
		{pg(`"io_timeout":"10ms"`), "broker.postgres.io_timeout: 10ms is not between 100ms and 1h0m0s"},
		{pg(`"replica":{"dsn":[""]}`), ""},                                  // not in use
		{pg(`"broker_fanout":{"channel_prefix":"","redis":{"db":-1}}`), ""}, // not in use
		{pg(`"broker_fanout":{"enabled":true}`), ""},
		{pg(`"broker_fanout":{"enabled":true,"type":"nats","redis":{"db":-1}}`), ""},
		{pg(`"broker_fanout":{"enabled":true,"type":"kafka"}`), "broker.postgres.broker_fanout.type: "},
		{pg(`"broker_fanout":{"enabled":true,"redis":{"db":-1}}`), "broker.postgres.broker_fanout.redis.db: -1 is negative"},
		{pg(`"broker_fanout":{"enabled":true,"type":"nats","nats":{"dial_timeout":"-1s"}}`), "broker.postgres.broker_fanout.nats.dial_timeout: -1s is not positive"},
		{pg(`"broker_fanout":{"enabled":true,"start_timeout":"2h"}`), "start_timeout: 2h0m0s is more than 1h"},
		{pg(`"replica":{"enabled":true,"dsn":["y","z"]}`), ""},
		{pg(`"replica":{"enabled":true}`), "broker.postgres.replica.dsn: is required by enabled"},
		{pg(`"replica":{"enabled":true,"dsn":["y",""]}`), "broker.postgres.replica.dsn[1]: is empty"},
		{pg(`"replica":{"enabled":true,"dsn":["y"` + strings.Repeat(`,"y"`, 16) + `]}`), "broker.postgres.replica.dsn: 17 elements are more than 16"},
		{pg(`"start_timeout":"2h"`), "broker.postgres.start_timeout: 2h0m0s is more than 1h"},
		{pg(`"tls":{"enabled":true,"cert_pem":"x"}`), "broker.postgres.tls: cert_pem, key_pem"},
		{chat(onPostgres, `"history_size":1,"history_ttl":"169h"`), "(chat).history_ttl: 169h0m0s is longer than the broker of these channels keeps publications: partition_retention_days is 7"},
		{chat(onPostgres, `"history_size":1,"history_ttl":"168h"`), ""},
		{chat(`"broker":{"enabled":true,"type":"postgres","postgres":{"dsn":"x","partition_retention_days":-1}}`, `"history_size":1,"history_ttl":"169h"`), ""},
		{chat(onPostgres, `"publication_data_format":"binary"`), "(chat).publication_data_format: binary needs binary_data"},
		{chat(`"broker":{"enabled":true,"type":"postgres","postgres":{"dsn":"x","binary_data":true}}`, `"publication_data_format":"binary"`), ""},
		{chat(mapsOnPostgres, `"subscription_type":"map","map":{"mode":"persistent","stream_ttl":"200h","meta_ttl":"300h"}`), "(chat).map.stream_ttl: 200h0m0s is longer"},
		{chat(mapsOnPostgres, `"subscription_type":"map","map":{"mode":"persistent"}`), ""},
	} {
		err := mustLoad(t, "c.json", tt.text).Validate()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s:\n\terror %v\n\twant  %q", tt.text, err, tt.want)
		}
	}
}

func TestClientTLS(t *testing.T) {
	pair := certtest.SelfSigned(1)
	good, key := PEM(pair.Certificate), PEM(pair.Key)
	got, err := TLS{Enabled: true, CertPEM: good, KeyPEM: key, ServerCAPEM: good, ServerName: "n"}.ClientConfig()
	if err != nil || got.MinVersion != tls.VersionTLS12 || len(got.Certificates) != 1 || got.RootCAs == nil || got.ServerName != "n" || got.InsecureSkipVerify {
		t.Errorf("%v %+v", err, got)
	}
	if got, err := (TLS{Enabled: true, InsecureSkipVerify: true}).ClientConfig(); err != nil || !got.InsecureSkipVerify {
		t.Errorf("%v %+v", err, got)
	}
	if got, err := (TLS{CertPEM: "x"}).ClientConfig(); got != nil || err != nil {
		t.Errorf("disabled: %v %v", got, err)
	}
	for _, tt := range []struct {
		tls  TLS
		want string
	}{
		{TLS{KeyPEM: key}, "cert_pem, key_pem: one is set"},
		{TLS{CertPEM: "hush-hush", KeyPEM: key}, "cert_pem"},
		{TLS{CertPEM: good, KeyPEM: "hush-hush"}, "key_pem"},
		{TLS{ServerCAPEM: "hush-hush"}, "server_ca_pem"},
		{TLS{ServerCAPEM: key}, "server_ca_pem: there is no certificate"},
	} {
		tt.tls.Enabled = true
		_, err := tt.tls.ClientConfig()
		wantError(t, err, tt.want)
		if strings.Contains(err.Error(), "hush") {
			t.Errorf("value in %q", err)
		}
	}
}
