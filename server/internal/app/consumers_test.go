package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/server/internal/config"
)

// withConsumer configures a consumer of the Redis stream "events".
func withConsumer(address string) func(*config.Config) {
	return func(cfg *config.Config) {
		c := config.Consumer{Name: "events", Enabled: true, Type: config.TypeRedisStream}
		c.RedisStream.Address = []string{address}
		c.RedisStream.ConnectTimeout, c.RedisStream.IOTimeout = 1e9, 4e9
		c.RedisStream.Streams, c.RedisStream.ConsumerGroup = []string{"events"}, "gyro"
		c.RedisStream.VisibilityTimeout, c.RedisStream.NumWorkers = 30e9, 1
		c.RedisStream.PayloadValue, c.RedisStream.MethodValue = "payload", "method"
		cfg.Consumers = append(cfg.Consumers, c)
		cfg.Prometheus.Enabled = true
	}
}

// TestConsumer: what a consumer receives reaches subscribers, and is in the metrics.
func TestConsumer(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{})
	s := startServer(t, withConsumer("redis://"+redis.Addr()))
	c := s.connect("u")
	s.api("subscribe", `{"user":"u","channel":"a"}`)
	if p := c.Push(); p.Subscribe == nil {
		t.Fatalf("got %+v", p)
	}
	redis.Do("XADD", "events", "*", "method", "publish", "payload", `{"channel":"a","data":{"n":1}}`)
	if p := c.Push(); p.Pub == nil || string(p.Pub.Data) != `{"n":1}` {
		t.Errorf("got %+v", p)
	}
}

// TestStartWithoutQueue: a server that cannot reach a queue says which consumer is to blame, and
// leaves nothing behind.
func TestStartWithoutQueue(t *testing.T) {
	t.Parallel()
	a, err := New(testConfig(withConsumer("redis://u:hush-hush@127.0.0.1:1")), Options{Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	err = a.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "consumers[0](events).redis_stream.address: ") || strings.Contains(err.Error(), "hush") {
		t.Errorf("got %v", err)
	}
}

// TestCheckConsumers: Check finds mistakes of enabled consumers that their validation does not find, without connecting.
func TestCheckConsumers(t *testing.T) {
	t.Parallel()
	for want, edit := range map[string]func(*config.Consumer){
		"redis_stream.address[0]": func(c *config.Consumer) { c.RedisStream.Address = []string{"http://x"} },
		"redis_stream.tls.cert_pem": func(c *config.Consumer) {
			c.RedisStream.TLS.Enabled, c.RedisStream.TLS.CertPEM = true, "x"
		},
		"azure_service_bus.connection_string": func(c *config.Consumer) {
			c.Type, c.AzureServiceBus = config.TypeAzureServiceBus, config.AzureConsumer{Queues: []string{"q"}, MaxConcurrentCalls: 1, MaxReceiveMessages: 1, ConnectionString: "hush"}
		},
	} {
		cfg := testConfig(withConsumer("redis://127.0.0.1:1"))
		edit(&cfg.Consumers[0])
		if err := Check(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		cfg.Consumers[0].Enabled = false
		if err := Check(cfg); err != nil {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := Check(testConfig(nil)); errors.Unwrap(err) != nil {
		t.Error(err)
	}
}
