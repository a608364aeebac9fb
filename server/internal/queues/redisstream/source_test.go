package redisstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/config/engines"
	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/queues/queuetest"
)

// TestMain looks for goroutines that are left.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, redistest.Lingering()...)
}

func consumer(s *redistest.Server, edit func(*config.Consumer)) config.Consumer {
	c := config.Consumer{RedisStream: config.RedisConsumer{
		Redis:   engines.Redis{Address: []string{s.Addr()}, ConnectTimeout: wait.Limit, IOTimeout: wait.Limit},
		Streams: []string{"events"}, ConsumerGroup: "gyro", VisibilityTimeout: time.Hour, NumWorkers: 1, PayloadValue: "payload", MethodValue: "method",
	}}
	if edit != nil {
		edit(&c)
	}
	return c
}

func source(tb testing.TB, c config.Consumer) *Source {
	tb.Helper()
	s, err := New(&c)
	if err != nil {
		tb.Fatal(err)
	}
	s.interval = 50 * time.Millisecond
	return s
}

// expire has the visibility timeouts of all entries pass that are pending now: Redis keeps their time.
func expire(s *redistest.Server) {
	s.Do("EVAL", `for _, e in ipairs(redis.call('XPENDING', 'events', 'gyro', '-', '+', 1000)) do
		redis.call('XCLAIM', 'events', 'gyro', e[2], 0, e[1], 'IDLE', 3600000, 'JUSTID')
	end`, "0")
}

func add(s *redistest.Server, ch, data string) string {
	return s.Do("XADD", "events", "*", "method", "publish", "payload", fmt.Sprintf(`{"channel":%q,"data":%q}`, ch, data))
}

func pending(s *redistest.Server) string {
	first, _, _ := strings.Cut(s.Do("XPENDING", "events", "gyro"), "\n")
	return first
}

// TestConsume: entries are executed in their order and acknowledged; those from before the group are
// not read. A stop leaves no consumer behind.
func TestConsume(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{Password: "secret"})
	add(server, "a", "before")
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	stop := queuetest.Start(t, source(t, consumer(server, func(c *config.Consumer) { c.RedisStream.Password = "secret" })),
		queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
	var want []string
	for i := range 100 {
		add(server, fmt.Sprint("ch", i%3), fmt.Sprint(i))
		want = append(want, fmt.Sprintf(`ch%d "%d"`, i%3, i))
	}
	server.Do("XADD", "events", "*", "other", "x") // has no payload
	if got := node.Await(t, len(want)); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	wait.Until(t, "processed messages", func() bool { n, _, _ := meter.Counts(); return n == 101 })
	stop()
	if n := pending(server); n != "0" {
		t.Errorf("%s entries are pending", n)
	}
	if consumers := server.Do("XINFO", "CONSUMERS", "events", "gyro"); consumers != "" {
		t.Errorf("consumers are left: %s", consumers)
	}
}

// TestRestart: another source goes on where the first stopped.
func TestRestart(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	node := queuetest.NewNode()
	for i := range 3 {
		stop := queuetest.Start(t, source(t, consumer(server, nil)), queuetest.Config(node, nil))
		add(server, "a", fmt.Sprint(i))
		node.Await(t, 2*i+1)
		stop()
		add(server, "a", fmt.Sprint(i, " while away"))
	}
	want := []string{`a "0"`, `a "0 while away"`, `a "1"`, `a "1 while away"`, `a "2"`}
	if got := node.Got(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestNodes: sources that share the group, and come and go, execute each entry once.
func TestNodes(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		server := redistest.Standalone(t, redistest.Options{})
		queuetest.Handover(t, nodes, func() queues.Source { return source(t, consumer(server, nil)) }, nil,
			func(ch, data string) { add(server, ch, data) })
		if n := pending(server); n != "0" {
			t.Errorf("%s entries are pending", n)
		}
	}
}

// TestDataMode: the payload is the data, and fields are options.
func TestDataMode(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	node := queuetest.NewNode()
	queuetest.Start(t, source(t, consumer(server, nil)), queuetest.Config(node, func(c *queues.Config) {
		c.Mode = &config.PublicationDataMode{Enabled: true, Channels: "channels", IdempotencyKey: "key"}
	}))
	server.Do("XADD", "events", "*", "payload", "x", "channels", "a,b", "key", "k", "delta", "")
	if got := node.Await(t, 2); !slices.Equal(got, []string{"a x", "b x"}) || node.Options()[0].IdempotencyKey != "k" {
		t.Errorf("got %q %+v", got, node.Options()[0])
	}
}

// TestRetry: an entry that failed comes again after the visibility timeout, while others are executed.
func TestRetry(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	node.Fails = func(ch string, _ []byte) bool { return ch == "bad" }
	queuetest.Start(t, source(t, consumer(server, nil)), queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
	add(server, "bad", "1")
	add(server, "good", "2")
	node.Await(t, 1)
	if n := pending(server); n == "0" {
		t.Error("the entry that failed is acknowledged")
	}
	wait.Until(t, "lag", func() bool { return meter.LagOf("events") == 1 })
	node.SetFails(nil)
	expire(server)
	if got := node.Await(t, 2); !slices.Equal(got, []string{`good "2"`, `bad "1"`}) {
		t.Errorf("got %q", got)
	}
	wait.Until(t, "acknowledgement", func() bool { return pending(server) == "0" })
}

// TestPoison: an entry that fails for too long goes to the stream of dead letters.
func TestPoison(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	node := queuetest.NewNode()
	node.Fails = func(ch string, _ []byte) bool { return ch == "bad" }
	s := source(t, consumer(server, func(c *config.Consumer) { c.DeadLetter = "dead" }))
	queuetest.Start(t, s, queuetest.Config(node, func(c *queues.Config) {
		c.RetryTime, c.DeadLetter = time.Millisecond, s.KeepDeadLetter
	}))
	id := add(server, "bad", "1")
	wait.Until(t, "pending entry", func() bool { return pending(server) == "1" })
	add(server, "good", "2") // or nothing would tell that the entry is the reason
	wait.Until(t, "dead letter", func() bool {
		expire(server)
		return server.Do("XLEN", "dead") == "1"
	})
	wait.Until(t, "acknowledgement", func() bool { return pending(server) == "0" })
	letter := server.Do("XRANGE", "dead", "-", "+")
	for _, want := range []string{"events " + id, "publish: 100", `{"channel":"bad","data":"1"}`} {
		if !strings.Contains(letter, want) {
			t.Errorf("no %q in %s", want, letter)
		}
	}
}

// TestDeadConsumer: what a consumer did not acknowledge before it died is executed by another one.
func TestDeadConsumer(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	server.Do("XGROUP", "CREATE", "events", "gyro", "$", "MKSTREAM")
	add(server, "a", "1")
	server.Do("XREADGROUP", "GROUP", "gyro", "dead", "STREAMS", "events", ">")
	expire(server)
	node := queuetest.NewNode()
	queuetest.Start(t, source(t, consumer(server, nil)), queuetest.Config(node, nil))
	node.Await(t, 1)
}

// TestDuplicate: an entry that cannot be acknowledged is executed again.
func TestDuplicate(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	server.Do("ACL", "SETUSER", "default", "-xack")
	queuetest.Start(t, source(t, consumer(server, nil)), queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
	add(server, "a", "1")
	wait.Until(t, "error", func() bool { _, failed, _ := meter.Counts(); return failed > 0 })
	server.Do("ACL", "SETUSER", "default", "+xack")
	expire(server)
	if got := node.Await(t, 2); !slices.Equal(got, []string{`a "1"`, `a "1"`}) {
		t.Errorf("got %q", got)
	}
	wait.Until(t, "acknowledgement", func() bool { return pending(server) == "0" })
}

// TestTrimmed: entries that the stream does not keep any more are passed over, those that wait to be tried
// again included.
func TestTrimmed(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	node.Fails = func(ch string, _ []byte) bool { return ch == "bad" }
	stop := queuetest.Start(t, source(t, consumer(server, nil)), queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
	add(server, "bad", "1")
	wait.Until(t, "error", func() bool { _, failed, _ := meter.Counts(); return failed > 0 })
	stop()
	expire(server)
	add(server, "a", "2")
	server.Do("XTRIM", "events", "MAXLEN", "0")
	add(server, "a", "3")
	node.SetFails(nil)
	queuetest.Start(t, source(t, consumer(server, nil)), queuetest.Config(node, nil))
	if got := node.Await(t, 1); !slices.Equal(got, []string{`a "3"`}) {
		t.Errorf("got %q", got)
	}
	wait.Until(t, "end of the entry that was trimmed", func() bool { return pending(server) == "0" })
}

// TestStreamGone: the source goes on with a stream that was deleted.
func TestStreamGone(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	node := queuetest.NewNode()
	queuetest.Start(t, source(t, consumer(server, nil)), queuetest.Config(node, nil))
	add(server, "a", "1")
	node.Await(t, 1)
	server.Do("DEL", "events")
	wait.Until(t, "the group", func() bool { return server.Do("EXISTS", "events") == "1" })
	add(server, "a", "2")
	node.Await(t, 2)
}

// TestGroupGone: a group that vanishes is made again, and entries that came meanwhile are read.
func TestGroupGone(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	node := queuetest.NewNode()
	queuetest.Start(t, source(t, consumer(server, nil)), queuetest.Config(node, nil))
	add(server, "a", "1")
	node.Await(t, 1)
	wait.Until(t, "acknowledgement", func() bool { return pending(server) == "0" })
	server.Do("EVAL", `redis.call('XGROUP','DESTROY','events','gyro') return redis.call('XADD','events','*','method','publish','payload','{"channel":"a","data":"2"}')`, "0")
	if got := node.Await(t, 2); !slices.Equal(got, []string{`a "1"`, `a "2"`}) {
		t.Errorf("got %q", got)
	}
}

// TestOutage: the source goes on when Redis is back.
func TestOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{Persistent: true})
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	queuetest.Start(t, source(t, consumer(server, nil)), queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
	add(server, "a", "1")
	node.Await(t, 1)
	server.Kill()
	wait.Until(t, "error", func() bool { _, failed, _ := meter.Counts(); return failed > 0 })
	server.Restart(false)
	add(server, "a", "2")
	node.AwaitFor(t, func(got []string) bool { return slices.Contains(got, `a "2"`) })
}

// TestStart: what is wrong is told at the start.
func TestStart(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{Password: "right"})
	server.Do("SET", "string", "x")
	for name, tt := range map[string]struct {
		edit func(*config.Consumer)
		want string
	}{
		"away":         {func(c *config.Consumer) { c.RedisStream.Address = []string{"127.0.0.1:1"} }, "127.0.0.1:1"},
		"no stream":    {func(c *config.Consumer) { c.RedisStream.Streams = []string{"string"} }, "stream string: WRONGTYPE"},
		"wrong secret": {func(c *config.Consumer) { c.RedisStream.Password = "hush" }, "WRONGPASS"},
	} {
		c := consumer(server, func(c *config.Consumer) { c.RedisStream.Password = "right" })
		tt.edit(&c)
		s := source(t, c)
		err := s.Connect(t.Context())
		s.Close()
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCluster: a plain address may be that of a Cluster's node.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t, redistest.Options{})
	owner := cluster.Nodes[cluster.Owner(cluster.Slot("events"))]
	node := queuetest.NewNode()
	queuetest.Start(t, source(t, consumer(cluster.Nodes[0], nil)), queuetest.Config(node, nil))
	add(owner, "a", "1")
	node.Await(t, 1)
	slot := cluster.Slot("events")
	to := (cluster.Owner(slot) + 1) % len(cluster.Nodes)
	cluster.MoveSlot(slot, to)
	add(cluster.Nodes[to], "a", "2")
	node.AwaitFor(t, func(got []string) bool { return slices.Contains(got, `a "2"`) })
}

// TestFailover: the source follows the Sentinels to another server.
func TestFailover(t *testing.T) {
	t.Parallel()
	s := redistest.NewSentinel(t, redistest.Options{Password: "secret"})
	node := queuetest.NewNode()
	queuetest.Start(t, source(t, consumer(s.Servers[0], func(c *config.Consumer) {
		c.RedisStream.SentinelAddress, c.RedisStream.SentinelMasterName, c.RedisStream.Password = []string{strings.Join(s.Addresses(), ",")}, s.Master, "secret"
	})), queuetest.Config(node, nil))
	add(s.Primary(), "a", "1")
	node.Await(t, 1)
	add(s.Failover(), "a", "2")
	node.AwaitFor(t, func(got []string) bool { return slices.Contains(got, `a "2"`) })
}

// BenchmarkConsume consumes a stream with 1,000 channels; one operation is one publication.
func BenchmarkConsume(b *testing.B) {
	server := redistest.Standalone(b, redistest.Options{})
	node := queuetest.NewNode()
	s := source(b, consumer(server, nil))
	if err := s.Connect(b.Context()); err != nil {
		b.Fatal(err)
	}
	const chunk = 10_000
	script := `for i = 1, ARGV[1] do redis.call('XADD', 'events', '*', 'method', 'publish', 'payload', '{"channel":"ch' .. (i % 1000) .. '","data":{"text":"hello, world"}}') end`
	for n := 0; n < b.N; n += chunk {
		server.Do("EVAL", script, "0", fmt.Sprint(min(chunk, b.N-n)))
	}
	s.Close()
	b.ResetTimer()
	stop := queuetest.Start(b, source(b, consumer(server, nil)), queuetest.Config(node, nil))
	node.Await(b, b.N)
	b.StopTimer()
	stop()
}
