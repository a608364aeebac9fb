package kafka

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/queues/queuetest"
)

// A connection of the fake broker may still be making room for the request that it takes the first bytes of a
// TLS handshake for: hundreds of megabytes.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/twmb/franz-go/pkg/kfake.(*clientConn).read.func1"))
}

// rig is a cluster with the topic "events" of two partitions, "dead" of one, and a producer.
type rig struct {
	*kfake.Cluster
	tb       testing.TB
	producer *kgo.Client
}

func start(tb testing.TB, options ...kfake.Opt) *rig {
	tb.Helper()
	c, err := kfake.NewCluster(append(options, kfake.NumBrokers(1), kfake.SeedTopics(2, "events"), kfake.SeedTopics(1, "dead"))...)
	if err != nil {
		tb.Fatal(err)
	}
	r := &rig{Cluster: c, tb: tb}
	if r.producer, err = kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DialTimeout(wait.Limit)); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		r.producer.Close()
		c.Close()
	})
	return r
}

// add produces a publication.
func (r *rig) add(number int32, ch, data string) {
	r.tb.Helper()
	record := &kgo.Record{
		Topic: "events", Partition: number, Value: fmt.Appendf(nil, `{"channel":%q,"data":%q}`, ch, data),
		Headers: []kgo.RecordHeader{{Key: "centrifugo-method", Value: []byte("publish")}, {Key: "centrifugo-method", Value: []byte("info")}},
	}
	if err := r.producer.ProduceSync(r.tb.Context(), record).FirstErr(); err != nil {
		r.tb.Fatal(err)
	}
}

func (r *rig) source(edit func(*config.Consumer)) *Source {
	r.tb.Helper()
	c := config.Consumer{Kafka: config.KafkaConsumer{
		Brokers: r.ListenAddrs(), Topics: []string{"events"}, ConsumerGroup: "gyro", MaxPollRecords: 100, FetchMaxWait: 50 * time.Millisecond,
		DialTimeout: wait.Limit, MethodHeader: "centrifugo-method",
	}}
	if edit != nil {
		edit(&c)
	}
	s, err := New(&c)
	if err != nil {
		r.tb.Fatal(err)
	}
	return s
}

func ordered(c *queues.Config) { c.Ordered = true }

// checkOrder tests that the numbers of each channel grow.
func checkOrder(t *testing.T, got []string) {
	t.Helper()
	last := map[string]string{}
	for _, g := range got {
		ch, data, _ := strings.Cut(g, " ")
		if last[ch] >= data {
			t.Errorf("%s after %s", g, last[ch])
		}
		last[ch] = data
	}
}

// TestConsume: records are executed in the order of their partition, from the begin of the topics;
// another source goes on where the first stopped.
func TestConsume(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, -1, 10} {
		r := start(t)
		node, meter := queuetest.NewNode(), new(queuetest.Meter)
		total := 0
		for round := range 2 {
			for i := range 100 {
				r.add(int32(i%2), fmt.Sprint("ch", i%2), fmt.Sprintf("%d-%03d", round, i))
			}
			total += 100
			stop := queuetest.Start(t, r.source(func(c *config.Consumer) { c.Kafka.PartitionQueueMaxSize, c.Kafka.MaxPollRecords = size, 7 }),
				queuetest.Config(node, func(c *queues.Config) { c.Ordered, c.Meter = true, meter }))
			node.Await(t, total)
			r.add(0, "ch0", fmt.Sprintf("%d-later", round))
			total++
			node.Await(t, total)
			wait.Until(t, "lag of 0", func() bool { return meter.LagOf("events/0") == 0 })
			stop()
			got := node.Got()
			if len(got) != total {
				t.Errorf("queue size %d, round %d: got %d", size, round, len(got))
			}
			checkOrder(t, got)
		}
	}
}

// TestRebalance: when a second source comes, and when the first goes, the partitions are shared;
// no record is lost, and none is executed twice.
func TestRebalance(t *testing.T) {
	t.Parallel()
	r := start(t)
	node := queuetest.NewNode()
	total := 0
	add := func() {
		for range 20 {
			for number := range int32(2) {
				r.add(number, fmt.Sprint("ch", number), fmt.Sprintf("%04d", total))
				total++
			}
		}
	}
	members := func(n int) {
		t.Helper()
		if _, err := r.WaitGroupStable(t.Context(), "gyro", n); err != nil {
			t.Fatal(err)
		}
	}
	add()
	first := queuetest.Start(t, r.source(nil), queuetest.Config(node, ordered))
	node.Await(t, total)
	second := queuetest.Start(t, r.source(nil), queuetest.Config(node, ordered))
	add()
	members(2)
	add()
	node.Await(t, total)
	first()
	add()
	members(1)
	node.Await(t, total)
	second()
	got := node.Got()
	if len(got) != total {
		t.Errorf("executed %d of %d", len(got), total)
	}
	checkOrder(t, got)
}

// TestStopWhileBusy: records are executed once while sources come and go.
func TestStopWhileBusy(t *testing.T) {
	t.Parallel()
	r := start(t)
	queuetest.Handover(t, 1, func() queues.Source { return r.source(nil) }, ordered, func(ch, data string) { r.add(0, ch, data) })
}

// TestPartitionLost: a member that the group has given up joins it again, and executes again what it has not
// committed.
func TestPartitionLost(t *testing.T) {
	t.Parallel()
	r := start(t)
	node := queuetest.NewNode()
	refuse := r.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: "gyro", Err: kerr.UnknownMemberID, Count: -1})
	queuetest.Start(t, r.source(nil), queuetest.Config(node, ordered))
	r.add(0, "a", "1")
	node.Await(t, 1)
	r.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Group: "gyro", Err: kerr.UnknownMemberID, TopLevel: true})
	if got := node.Await(t, 2); !slices.Equal(got, []string{`a "1"`, `a "1"`}) {
		t.Errorf("got %q", got)
	}
	refuse.Remove()
	r.add(0, "a", "2")
	node.Await(t, 3)
}

// TestDuplicate: records whose offsets cannot be committed are executed again.
func TestDuplicate(t *testing.T) {
	t.Parallel()
	r := start(t)
	node := queuetest.NewNode()
	refuse := r.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: "gyro", Err: kerr.GroupAuthorizationFailed, Count: -1})
	stop := queuetest.Start(t, r.source(nil), queuetest.Config(node, ordered))
	r.add(0, "a", "1")
	node.Await(t, 1)
	stop()
	refuse.Remove()
	queuetest.Start(t, r.source(nil), queuetest.Config(node, ordered))
	if got := node.Await(t, 2); !slices.Equal(got, []string{`a "1"`, `a "1"`}) {
		t.Errorf("got %q", got)
	}
}

// TestTopicMissing: the source begins when the topic is there.
func TestTopicMissing(t *testing.T) {
	t.Parallel()
	r := start(t)
	node := queuetest.NewNode()
	if err := r.DeleteTopic("events"); err != nil {
		t.Fatal(err)
	}
	s := r.source(nil)
	s.options = append(s.options, kgo.MetadataMinAge(50*time.Millisecond)) // how soon it asks for topics again
	queuetest.Start(t, s, queuetest.Config(node, ordered))
	if err := r.CreateTopic("events", 2, nil); err != nil {
		t.Fatal(err)
	}
	r.add(0, "a", "1")
	node.Await(t, 1)
}

// TestOutage: the source goes on when the broker is back.
func TestOutage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, kfake.DataDir(dir))
	node := queuetest.NewNode()
	queuetest.Start(t, r.source(nil), queuetest.Config(node, ordered))
	r.add(0, "a", "1")
	node.Await(t, 1)
	_, port, err := net.SplitHostPort(r.ListenAddrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	r.Cluster.Close()
	number, _ := strconv.Atoi(port)
	again := start(t, kfake.DataDir(dir), kfake.Ports(number))
	again.add(0, "a", "2")
	node.AwaitFor(t, func(got []string) bool { return slices.Contains(got, `a "2"`) })
}

// TestRetry: a record that fails keeps those behind it waiting, in its partition alone.
func TestRetry(t *testing.T) {
	t.Parallel()
	r := start(t)
	node := queuetest.NewNode()
	node.Fails = func(ch string, _ []byte) bool { return ch == "bad" }
	r.add(0, "bad", "1")
	r.add(0, "bad", "2")
	stop := queuetest.Start(t, r.source(nil), queuetest.Config(node, ordered))
	r.add(1, "good", "3")
	node.Await(t, 1)
	stop() // nothing of the partition was committed
	queuetest.Start(t, r.source(nil), queuetest.Config(node, ordered))
	r.add(1, "good", "4")
	node.Await(t, 2)
	node.SetFails(nil)
	if got := node.Await(t, 4); !slices.Equal(got, []string{`good "3"`, `good "4"`, `bad "1"`, `bad "2"`}) {
		t.Errorf("got %q", got)
	}
}

// TestPoison: a record that fails for too long goes to the topic of dead letters, and those behind it
// are executed.
func TestPoison(t *testing.T) {
	t.Parallel()
	r := start(t)
	node := queuetest.NewNode()
	node.Fails = func(ch string, _ []byte) bool { return ch == "bad" }
	r.add(0, "bad", "1")
	r.add(0, "unknown:1", "2")
	r.add(0, "good", "3")
	s := r.source(func(c *config.Consumer) { c.DeadLetter = "dead" })
	queuetest.Start(t, s, queuetest.Config(node, func(c *queues.Config) {
		c.Ordered, c.RetryTime, c.DeadLetter = true, time.Millisecond, s.KeepDeadLetter
	}))
	node.Await(t, 1)
	reader, err := kgo.NewClient(kgo.SeedBrokers(r.ListenAddrs()...), kgo.ConsumeTopics("dead"))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var letters []string
	for len(letters) < 2 {
		reader.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) {
			h := r.Headers[len(r.Headers)-2:]
			letters = append(letters, fmt.Sprintf("%s %s %s", r.Value, h[0].Value, h[1].Value))
		})
	}
	slices.Sort(letters)
	for i, want := range []string{`{"channel":"bad","data":"1"} events/0/0 publish: 100`, `{"channel":"unknown:1","data":"2"} events/0/1 publish: 102`} {
		if !strings.HasPrefix(letters[i], want) {
			t.Errorf("got %q, want %q", letters[i], want)
		}
	}
}

// TestOffsetGone: records that the topic does not keep any more are passed over.
func TestOffsetGone(t *testing.T) {
	t.Parallel()
	r := start(t)
	node := queuetest.NewNode()
	stop := queuetest.Start(t, r.source(nil), queuetest.Config(node, ordered))
	r.add(0, "a", "1")
	node.Await(t, 1)
	stop()
	for _, data := range []string{"2", "3", "4"} {
		r.add(0, "a", data)
	}
	if err := r.DeleteRecords("events", 0, 3); err != nil {
		t.Fatal(err)
	}
	queuetest.Start(t, r.source(nil), queuetest.Config(node, ordered))
	if got := node.Await(t, 2); !slices.Equal(got, []string{`a "1"`, `a "4"`}) {
		t.Errorf("got %q", got)
	}
}

// TestFetchRefused: after an error that the client does not get over, the source begins anew.
func TestFetchRefused(t *testing.T) {
	t.Parallel()
	r := start(t)
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	refused := false
	r.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		f := request.(*kmsg.FetchRequest)
		if refused || len(f.Topics) == 0 {
			r.KeepControl()
			return nil, nil, false
		}
		refused = true
		res := f.ResponseKind().(*kmsg.FetchResponse)
		for _, topic := range f.Topics {
			rt := kmsg.NewFetchResponseTopic()
			rt.Topic, rt.TopicID = topic.Topic, topic.TopicID
			for _, p := range topic.Partitions {
				rp := kmsg.NewFetchResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			res.Topics = append(res.Topics, rt)
		}
		return res, nil, true
	})
	r.add(0, "a", "1")
	queuetest.Start(t, r.source(nil), queuetest.Config(node, func(c *queues.Config) { c.Ordered, c.Meter = true, meter }))
	node.Await(t, 1)
	if _, failed, _ := meter.Counts(); failed == 0 {
		t.Error("no error was counted")
	}
}

// TestSecurity: users have to prove who they are, by each mechanism that kfake has.
func TestSecurity(t *testing.T) {
	t.Parallel()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.SeedTopics(1, "events"),
		kfake.Superuser("PLAIN", "p", "secret"), kfake.Superuser("SCRAM-SHA-256", "s2", "secret"), kfake.Superuser("SCRAM-SHA-512", "s5", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, tt := range []struct{ mechanism, user, password, want string }{
		{"plain", "p", "secret", ""}, {"scram-sha-256", "s2", "secret", ""}, {"scram-sha-512", "s5", "secret", ""},
		{"plain", "p", "hush", "brokers 127.0.0.1"}, {"", "", "", "brokers 127.0.0.1"}, {"other", "", "", "sasl_mechanism"},
	} {
		s, err := New(&config.Consumer{Kafka: config.KafkaConsumer{
			Brokers: c.ListenAddrs(), Topics: []string{"events"}, ConsumerGroup: "gyro", MaxPollRecords: 1, DialTimeout: wait.Limit,
			SASLMechanism: tt.mechanism, SASLUser: tt.user, SASLPassword: tt.password,
		}})
		if err == nil {
			err = s.Connect(t.Context())
		}
		if text := fmt.Sprint(err); (err == nil) != (tt.want == "") || !strings.Contains(text, tt.want) || strings.Contains(text, "hush") {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// TestStart: what is wrong is told at the start.
func TestStart(t *testing.T) {
	t.Parallel()
	r := start(t)
	for name, tt := range map[string]struct {
		edit func(*config.Consumer)
		want string
	}{
		"away": {func(c *config.Consumer) {
			c.Kafka.Brokers = []string{"127.0.0.1:1"}
			c.Kafka.DialTimeout = 100 * time.Millisecond
		}, "127.0.0.1:1"},
		"no TLS": {func(c *config.Consumer) {
			c.Kafka.TLS.Enabled, c.Kafka.TLS.InsecureSkipVerify = true, true
			c.Kafka.DialTimeout = 100 * time.Millisecond
		}, "brokers"},
	} {
		if err := r.source(tt.edit).Connect(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestProbe: it finds the topics, or tells which one is missing, and makes none.
func TestProbe(t *testing.T) {
	t.Parallel()
	r := start(t)
	if err := r.source(nil).Probe(t.Context()); err != nil {
		t.Error(err)
	}
	for range 2 {
		err := r.source(func(c *config.Consumer) { c.Kafka.Topics = []string{"events", "other"} }).Probe(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), "topics: other: ") {
			t.Errorf("got %v", err)
		}
	}
}

// BenchmarkConsume consumes two partitions with 1,000 channels; one operation is one publication.
func BenchmarkConsume(b *testing.B) {
	r := start(b)
	for i := range b.N {
		r.producer.Produce(b.Context(), &kgo.Record{
			Topic: "events", Partition: int32(i % 2), Value: fmt.Appendf(nil, `{"channel":"ch%d","data":{"text":"hello, world"}}`, i%1000),
			Headers: []kgo.RecordHeader{{Key: "centrifugo-method", Value: []byte("publish")}},
		}, nil)
	}
	if err := r.producer.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	node := queuetest.NewNode()
	b.ResetTimer()
	stop := queuetest.Start(b, r.source(func(c *config.Consumer) { c.Kafka.MaxPollRecords = 1000 }), queuetest.Config(node, ordered))
	node.Await(b, b.N)
	b.StopTimer()
	stop()
}
