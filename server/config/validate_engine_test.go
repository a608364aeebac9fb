package config

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
)

// TestValidateEngines has a row per rule for engines: what the configuration is, and what the
// error says.
func TestValidateEngines(t *testing.T) {
	const (
		nats  = `"broker":{"enabled":true,"type":"nats"}`
		named = `"brokers":[{"name":"n1","enabled":true,"type":"nats"},{"name":"off","type":"redis"}]`
	)
	chat := func(rest, options string) string {
		return `{` + rest + `,"channel":{"namespaces":[{"name":"chat",` + options + `}]}}`
	}
	many := strings.Repeat(`{"name":"%d0"},`, 65)
	for i := range 65 {
		many = strings.Replace(many, "%d", fmt.Sprint(i), 1)
	}
	for _, tt := range []struct{ text, want string }{
		{`{"engine":{"type":"redis"}}`, ""},
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
	} {
		err := mustLoad(t, "c.json", tt.text).Validate()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s:\n\terror %v\n\twant  %q", tt.text, err, tt.want)
		}
	}
}

func TestClientTLS(t *testing.T) {
	certPEM, keyPEM := selfSigned(t)
	good, key := PEM(certPEM), PEM(keyPEM)
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
