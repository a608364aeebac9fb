package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/config"
)

// queue is a queue with parts: streams, subjects or topics.
type queue struct {
	kind string
	// command writes a command; the queues differ in the form.
	command func(m api.Method, request string) (payload string, attributes map[string]string)
	// consumer returns the configuration of a consumer of a part, which has the name of the part. mode is
	// added to the options of its type.
	consumer func(part, mode string) string
	send     func(part string, payload []byte, attributes map[string]string)
}

// queueWays are the ways into the server API by queues, in command mode and in publication data mode, and the
// consumers that they need.
func queueWays(t *testing.T) ([]way, []config.Consumer) {
	t.Helper()
	var ways []way
	var consumers []string
	for _, q := range []queue{redisQueue(t), natsQueue(t), kafkaQueue(t)} {
		commands, data := q.kind+"_commands", q.kind+"_data"
		consumers = append(consumers, q.consumer(commands, ""), q.consumer(data, `,"publication_data_mode":{"enabled":true}`))
		ways = append(ways,
			queued(commands, []string{"batch"}, func(m api.Method, request string) {
				payload, attributes := q.command(m, request)
				q.send(commands, []byte(payload), attributes)
			}),
			queued(data, []string{"batch", "skip_history", "b64data that is none"}, func(_ api.Method, request string) {
				payload, attributes := asData(t, request)
				q.send(data, payload, attributes)
			}))
	}
	cfg, _, err := config.Load(config.Options{Env: []string{"GYRO_CONSUMERS=[" + strings.Join(consumers, ",") + "]"}})
	if err != nil {
		t.Fatal(err)
	}
	return ways, cfg.Consumers
}

// queued returns the way by which messages come that send puts into the queue of a consumer.
func queued(consumer string, lacks []string, send func(m api.Method, request string)) way {
	sent := 0
	return way{
		name: consumer, lacks: lacks,
		call: func(_ *testServer, m api.Method, request string) string {
			sent++
			send(m, request)
			return ""
		},
		done: func(s *testServer) {
			s.wantMetric(float64(sent), "gyro_consumers_messages_processed_total", "consumer_name="+consumer)
		},
	}
}

// asData returns the message that publishes the same in publication data mode.
func asData(t *testing.T, request string) (payload []byte, attributes map[string]string) {
	t.Helper()
	var r struct {
		Channel        string            `json:"channel"`
		Channels       []string          `json:"channels"`
		Data           json.RawMessage   `json:"data"`
		B64Data        []byte            `json:"b64data"`
		Tags           map[string]string `json:"tags"`
		IdempotencyKey string            `json:"idempotency_key"`
		Delta          bool              `json:"delta"`
		Version        uint64            `json:"version"`
		VersionEpoch   string            `json:"version_epoch"`
	}
	d := json.NewDecoder(strings.NewReader(request))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatalf("%s: %v", request, err)
	}
	if r.Channels == nil {
		r.Channels = []string{r.Channel}
	}
	attributes = map[string]string{
		"centrifugo-channels": strings.Join(r.Channels, ","), "centrifugo-idempotency-key": r.IdempotencyKey,
		"centrifugo-version-epoch": r.VersionEpoch, "centrifugo-delta": strconv.FormatBool(r.Delta),
	}
	if r.Version > 0 {
		attributes["centrifugo-version"] = strconv.FormatUint(r.Version, 10)
	}
	for k, v := range r.Tags {
		attributes["centrifugo-tag-"+k] = v
	}
	if len(r.B64Data) > 0 {
		return r.B64Data, attributes
	}
	return bytes.TrimSpace(r.Data), attributes
}

func redisQueue(t *testing.T) queue {
	redis := redistest.Standalone(t, redistest.Options{})
	return queue{
		kind: "redis",
		command: func(m api.Method, request string) (payload string, attributes map[string]string) {
			return request, map[string]string{"method": m.String()}
		},
		consumer: func(part, mode string) string {
			redis.Do("XGROUP", "CREATE", part, "gyro", "0", "MKSTREAM")
			return fmt.Sprintf(`{"name":%q,"enabled":true,"type":"redis_stream","redis_stream":{"address":"redis://%s","streams":[%q],"consumer_group":"gyro"%s}}`,
				part, redis.Addr(), part, mode)
		},
		send: func(part string, payload []byte, attributes map[string]string) {
			entry := []string{"XADD", part, "*", "payload", string(payload)}
			for k, v := range attributes {
				entry = append(entry, k, v)
			}
			redis.Do(entry...)
		},
	}
}

func natsQueue(t *testing.T) queue {
	s := must(server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()}))
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	conn := must(nats.Connect(s.ClientURL()))
	t.Cleanup(conn.Close)
	js := must(jetstream.New(conn))
	must(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"nats_commands", "nats_data"}, Storage: jetstream.MemoryStorage}))
	return queue{
		kind: "nats",
		command: func(m api.Method, request string) (payload string, attributes map[string]string) {
			return fmt.Sprintf(`{"method":%q,"payload":%s}`, m, request), nil
		},
		consumer: func(part, mode string) string {
			return fmt.Sprintf(`{"name":%q,"enabled":true,"type":"nats_jetstream","nats_jetstream":{"url":%q,"stream_name":"EVENTS",`+
				`"subjects":[%q],"durable_consumer_name":%q,"deliver_policy":"all"%s}}`, part, s.ClientURL(), part, part, mode)
		},
		send: func(part string, payload []byte, attributes map[string]string) {
			m := nats.NewMsg(part)
			m.Data = payload
			for k, v := range attributes {
				m.Header[k] = []string{v}
			}
			must(js.PublishMsg(t.Context(), m))
		},
	}
}

func kafkaQueue(t *testing.T) queue {
	c := must(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "kafka_commands", "kafka_data")))
	t.Cleanup(c.Close)
	producer := must(kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...)))
	t.Cleanup(producer.Close)
	return queue{
		kind: "kafka",
		command: func(m api.Method, request string) (payload string, attributes map[string]string) {
			return fmt.Sprintf(`{"method":%q,"payload":%s}`, m, must(json.Marshal(request))), nil
		},
		consumer: func(part, mode string) string {
			return fmt.Sprintf(`{"name":%q,"enabled":true,"type":"kafka","kafka":{"brokers":[%q],"topics":[%q],"consumer_group":%q,"fetch_max_wait":"50ms"%s}}`,
				part, c.ListenAddrs()[0], part, part, mode)
		},
		send: func(part string, payload []byte, attributes map[string]string) {
			r := &kgo.Record{Topic: part, Value: payload}
			for k, v := range attributes {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: k, Value: []byte(v)})
			}
			if err := producer.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		},
	}
}
