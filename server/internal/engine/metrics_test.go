package engine_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/config"
)

// metric returns the value of a gauge or a counter; -1: there is none. Labels are the
// values of labels in the order of their names.
func (s *server) metric(name string, labels ...string) float64 {
	s.t.Helper()
	status, text := s.request(http.MethodGet, "/metrics", "")
	if status != http.StatusOK {
		s.t.Fatalf("%d %s", status, text)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, m := range families["gyro_"+name].GetMetric() {
		var has []string
		for _, l := range m.Label {
			has = append(has, l.GetValue())
		}
		if fmt.Sprint(has) == fmt.Sprint(labels) {
			return m.Gauge.GetValue() + m.Counter.GetValue()
		}
	}
	return -1
}

func (s *server) eventually(name string, labels []string, is func(v float64) bool) {
	s.t.Helper()
	wait.Until(s.t, fmt.Sprint(name, labels), func() bool { return is(s.metric(name, labels...)) })
}

func positive(v float64) bool  { return v > 0 }
func exactly1(v float64) bool  { return v == 1 }
func exactly0(v float64) bool  { return v == 0 }
func plausible(v float64) bool { return v > 0 && v < 10 }

// TestMetricsOfRedis: the delay of canaries is there, and a shard that hangs is told
// from one that does not.
func TestMetricsOfRedis(t *testing.T) {
	t.Parallel()
	ill, well := redistest.Standalone(t, redistest.Options{}), redistest.Standalone(t, redistest.Options{})
	s := startNodes(t, 1, func(cfg *config.Config) {
		onRedis(ill, well)(cfg)
		cfg.Engine.Redis.IOTimeout = time.Second
		cfg.Prometheus.Enabled = true
	})[0]
	for _, shard := range []string{"0", "1"} {
		s.eventually("broker_canary_delay_seconds", []string{"", shard}, plausible)
		s.eventually("broker_delivers", []string{"", shard}, exactly1)
	}
	s.eventually("node_canary_delay_seconds", nil, plausible)
	s.eventually("node_ready", nil, exactly1)
	if got := s.metric("broker_redis_pub_sub_errors", "", "probe_publish"); got != 0 {
		t.Errorf("%g canaries were not published", got)
	}
	ill.Stop()
	s.eventually("broker_delivers", []string{"", "0"}, exactly0)
	s.eventually("node_ready", nil, exactly0)
	s.eventually("broker_redis_pub_sub_errors", []string{"", "probe_publish"}, positive)
	s.eventually("broker_redis_pub_sub_errors", []string{"", "probe_timeout"}, positive)
	s.eventually("broker_redis_pub_sub_errors", []string{"", "connection"}, positive)
	if got := s.metric("broker_delivers", "", "1"); got != 1 {
		t.Errorf("the shard that is well: %g", got)
	}
	ill.Continue()
	s.eventually("broker_delivers", []string{"", "0"}, exactly1)
	s.eventually("broker_reconnects_total", []string{"", "0"}, positive)
	s.eventually("node_ready", nil, exactly1)
	if got := s.metric("broker_reconnects_total", "", "1"); got != 0 {
		t.Errorf("the shard that is well was connected to %g times more", got)
	}
}

// TestRedisStoresNothing: Redis delivers and refuses publications with history, all of them or those of one shard. Health and
// metrics of a node say so with the reason, and that it is over.
func TestRedisStoresNothing(t *testing.T) {
	t.Parallel()
	for reason, test := range map[string]struct{ begin, end []string }{
		"OOM":      {[]string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"}},
		"READONLY": {[]string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			ill, well := redistest.Standalone(t, redistest.Options{}), redistest.Standalone(t, redistest.Options{})
			s := startNodes(t, 1, func(cfg *config.Config) {
				onRedis(ill, well)(cfg)
				cfg.Prometheus.Enabled = true
				cfg.Channel.Namespaces[0].HistorySize, cfg.Channel.Namespaces[0].HistoryTTL = 10, time.Minute
			})[0]
			for i := range 20 { // to both shards
				s.api("publish", fmt.Sprintf(`{"channel":"ns:%d","data":1}`, i))
			}
			s.eventually("node_ready", nil, exactly1)
			ill.Do(test.begin...)
			s.eventually("broker_delivers", []string{"", "0"}, exactly0)
			s.eventually("node_ready", nil, exactly0)
			if status, body := s.health(); status != http.StatusServiceUnavailable || !strings.Contains(body, ill.Addr()) || !strings.Contains(body, reason) {
				t.Errorf("health: %d %s", status, body)
			}
			if got := s.metric("broker_delivers", "", "1"); got != 1 {
				t.Errorf("the shard that is well: %g", got)
			}
			ill.Do(test.end...)
			s.eventually("broker_delivers", []string{"", "0"}, exactly1)
			s.eventually("node_ready", nil, exactly1)
		})
	}
}

// TestPostgresHangs: PostgreSQL delivers, and gives no answer to publications. Health and metrics of a node say so with the reason, and
// that it is over.
func TestPostgresHangs(t *testing.T) {
	t.Parallel()
	edit := onPostgres(t)
	var dsn string
	s := startNodes(t, 1, func(cfg *config.Config) {
		edit(cfg)
		dsn, cfg.Prometheus.Enabled = cfg.Broker.Postgres.DSN, true
		cfg.Broker.Postgres.IOTimeout = wait.Limit // a busy machine is no fault
		cfg.Channel.Namespaces[0].HistorySize, cfg.Channel.Namespaces[0].HistoryTTL = 10, time.Minute
	})[0]
	publish := func() { s.api("publish", `{"channel":"ns:a","b64data":"MQ=="}`) }
	publish()
	s.eventually("node_ready", nil, exactly1)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	do := func(sql string) {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	do("BEGIN")
	do("LOCK TABLE cf_binary_stream_meta IN EXCLUSIVE MODE")
	var published sync.WaitGroup
	published.Go(publish)
	s.eventually("broker_delivers", []string{"", "0"}, exactly0)
	s.eventually("node_ready", nil, exactly0)
	for _, reason := range []string{"a transaction in shard ", " of cf_binary_stream has had no answer since ", "it waits for relation (Lock) because of process "} {
		if status, body := s.health(); status != http.StatusServiceUnavailable || !strings.Contains(body, reason) {
			t.Errorf("health: %d %s, want %s", status, body, reason)
		}
		if !strings.Contains(s.log(), reason) {
			t.Errorf("no line with %s: %s", reason, s.log())
		}
	}
	do("ROLLBACK")
	published.Wait()
	s.eventually("broker_delivers", []string{"", "0"}, exactly1)
	s.eventually("node_ready", nil, exactly1)
}

// TestMetricsOfBrokers: each has the name that it has in the configuration.
func TestMetricsOfBrokers(t *testing.T) {
	t.Parallel()
	edit := clusters["redis, and nats for a namespace"].start(t)
	nodes := startNodes(t, 2, func(cfg *config.Config) {
		edit(cfg)
		cfg.Prometheus.Enabled = true
	})
	for _, s := range nodes {
		s.eventually("node_num_nodes", nil, func(v float64) bool { return v == 2 })
		for _, name := range []string{"", "fast"} {
			s.eventually("broker_canary_delay_seconds", []string{name, "0"}, plausible)
			s.eventually("broker_delivers", []string{name, "0"}, exactly1)
			s.eventually("broker_reconnects_total", []string{name, "0"}, exactly0)
		}
		s.eventually("broker_nats_dropped_messages_total", []string{"fast"}, exactly0)
		s.eventually("broker_nats_buffered_messages", []string{"fast"}, exactly0)
		s.eventually("broker_redis_pub_sub_dropped_messages", []string{"", "control"}, exactly0)
		s.eventually("broker_redis_pub_sub_buffered_messages", []string{"", "client", "0"}, exactly0)
	}
}
