//go:build linux

package cluster

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/nats"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/e2e/internal/rig"
)

const prefix = "fleet"

type engine struct {
	name   string
	config string
	// broker makes one that hears what the nodes tell each other.
	broker func() (broker.Broker, error)
	redis  []*redistest.Server
	nats   *rig.NATS
}

func newEngine(tb testing.TB, name string, shards int) *engine {
	tb.Helper()
	e := &engine{name: name}
	switch name {
	case "redis":
		var addrs []string
		var list []redis.Shard
		for range shards {
			s := redistest.Standalone(tb, redistest.Options{})
			e.redis, addrs = append(e.redis, s), append(addrs, strconv.Quote(s.Addr()))
			list = append(list, redis.Shard{Addresses: []string{s.Addr()}})
		}
		e.config = `"engine": {"type": "redis", "redis": {"prefix": "` + prefix + `", "address": [` + strings.Join(addrs, ", ") + `]}}`
		e.broker = overRedis(redis.Config{Prefix: prefix, Shards: list})
	case "redis-cluster", "redis-sharded":
		c, cfg := redistest.NewCluster(tb, redistest.Options{}), redis.Config{Prefix: prefix}
		e.redis, cfg.Shards = c.Nodes, []redis.Shard{{Addresses: c.Addresses(), Mode: redis.Cluster}}
		keys := ""
		if name == "redis-sharded" {
			cfg.ShardedPubSubPartitions = 16
			keys = `, "sharded_pub_sub_partitions": 16`
		}
		e.config = fmt.Sprintf(`"engine": {"type": "redis", "redis": {"prefix": %q, "cluster_address": [%q]%s}}`, prefix, strings.Join(c.Addresses(), ","), keys)
		e.broker = overRedis(cfg)
	case "nats":
		var err error
		if e.nats, err = rig.StartNATS(); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(e.nats.Stop)
		e.config = `"broker": {"enabled": true, "type": "nats", "nats": {"prefix": "` + prefix + `", "url": "nats://` + e.nats.Addr() + `"}}`
		e.broker = func() (broker.Broker, error) {
			return nats.New(nats.Config{Prefix: prefix, URL: "nats://" + e.nats.Addr()})
		}
	default:
		tb.Fatalf("no engine %q", name)
	}
	return e
}

func overRedis(cfg redis.Config) func() (broker.Broker, error) {
	return func() (broker.Broker, error) {
		e, err := redis.New(cfg)
		if err != nil {
			return nil, err
		}
		return e.Broker(), nil
	}
}

func (e *engine) history() bool { return e.nats == nil }

type work struct {
	cpu time.Duration // of the servers; NATS runs in the process of the test
	// calls by command, or messages got and passed on.
	calls map[string]int64
	// in and out are bytes from and to nodes.
	in, out int64
}

func (e *engine) work(tb testing.TB) work {
	tb.Helper()
	w := work{calls: make(map[string]int64)}
	if e.nats != nil {
		got, passed, in, out, err := e.nats.Sent()
		if err != nil {
			tb.Fatal(err)
		}
		w.calls["got"], w.calls["passed"], w.in, w.out = got, passed, in, out
		w.cpu = cpuOf(tb, os.Getpid())
		return w
	}
	for _, s := range e.redis {
		w.cpu += cpuOf(tb, s.PID())
		for line := range strings.Lines(s.Do("INFO", "everything")) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			name, isCommand := strings.CutPrefix(key, "cmdstat_")
			switch {
			case isCommand:
				calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
				w.calls[name] += number(tb, calls)
			case key == "total_net_input_bytes":
				w.in += number(tb, value)
			case key == "total_net_output_bytes":
				w.out += number(tb, value)
			}
		}
	}
	return w
}

func number(tb testing.TB, text string) int64 {
	tb.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// since leaves out the calls of the measurement itself.
func (w work) since(before work) work {
	d := work{cpu: w.cpu - before.cpu, calls: make(map[string]int64), in: w.in - before.in, out: w.out - before.out}
	for name, n := range w.calls {
		n -= before.calls[name]
		if n > 0 && name != "info" {
			d.calls[name] = n
		}
	}
	return d
}

func (e *engine) connections() (all, pubsub int) {
	if e.nats != nil {
		return e.nats.Connections(), 0
	}
	for _, s := range e.redis {
		all += strings.Count(s.Do("CLIENT", "LIST", "TYPE", "normal"), " addr=") - 1 // without this command
		pubsub += strings.Count(s.Do("CLIENT", "LIST", "TYPE", "pubsub"), " addr=")
	}
	return all + pubsub, pubsub
}

func (e *engine) buffered(tb testing.TB) (most int64) {
	for _, s := range e.redis {
		for _, field := range strings.Fields(s.Do("CLIENT", "LIST", "TYPE", "pubsub")) {
			if n, ok := strings.CutPrefix(field, "omem="); ok {
				most = max(most, number(tb, n))
			}
		}
	}
	return most
}
