package pubsub

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"go.uber.org/goleak"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/queues/queuetest"
)

// TestMain ignores a goroutine that a library starts for ever, and one that the client leaves until it
// would ask the service again for a sign of life.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
		goleak.IgnoreTopFunction("cloud.google.com/go/pubsub/v2.(*messageIterator).streamKeepAliveHandler"))
}

const topic, subscription = "projects/p/topics/events", "projects/p/subscriptions/gyro"

// rig is a server with a topic and a subscription to it, and a topic "dead".
type rig struct {
	*pstest.Server
	tb      testing.TB
	address string       // where clients connect
	streams atomic.Int32 // by which the server sends messages
	passed  atomic.Int64 // the server's time, which does not pass by itself: messages come again after a time
}

func start(tb testing.TB, ordered bool, reactors ...pstest.ServerReactorOption) *rig {
	tb.Helper()
	r := &rig{Server: pstest.NewServer(reactors...), tb: tb}
	r.SetTimeNowFunc(r.now)
	front := grpc.NewServer(grpc.StreamInterceptor(r.count))
	pubsubpb.RegisterPublisherServer(front, &r.GServer)
	pubsubpb.RegisterSubscriberServer(front, &r.GServer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r.address = l.Addr().String()
	var serving sync.WaitGroup
	serving.Go(func() { _ = front.Serve(l) }) // Stop ends it
	tb.Cleanup(func() {
		front.Stop()
		serving.Wait()
		_ = r.Close()
	})
	for _, name := range []string{topic, "projects/p/topics/dead"} {
		if _, err := r.GServer.CreateTopic(tb.Context(), &pubsubpb.Topic{Name: name}); err != nil {
			tb.Fatal(err)
		}
	}
	r.subscribe(ordered)
	return r
}

// now is the server's time. The server orders messages by it.
func (r *rig) now() time.Time { return time.Unix(1_800_000_000, r.passed.Add(1)) }

// stream is one by which the server sends messages.
type stream struct {
	grpc.ServerStream
	mu    sync.Mutex
	ended bool
}

// SendMsg implements grpc.ServerStream. The server may still want to send when the stream has ended; it changes
// the message when it delivers it again.
func (s *stream) SendMsg(m any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return io.EOF
	}
	return s.ServerStream.SendMsg(m)
}

// count counts streams.
func (r *rig) count(server any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	r.streams.Add(1)
	defer r.streams.Add(-1)
	one := &stream{ServerStream: s}
	err := handle(server, one)
	one.mu.Lock()
	defer one.mu.Unlock()
	one.ended = true
	return err
}

// awaitGone waits until the server knows that nobody receives. Until then, it may give messages to those who have gone.
func (r *rig) awaitGone() {
	r.tb.Helper()
	wait.Until(r.tb, "end of streams", func() bool { return r.streams.Load() == 0 })
}

// expire has the deadlines of the messages pass that were under way to those who have gone. The server forgets messages
// after ten minutes.
func (r *rig) expire() {
	r.tb.Helper()
	r.awaitGone()
	r.passed.Add(int64(5 * time.Minute))
}

func (r *rig) subscribe(ordered bool) {
	s := &pubsubpb.Subscription{Name: subscription, Topic: topic, AckDeadlineSeconds: 10, EnableMessageOrdering: ordered}
	if _, err := r.GServer.CreateSubscription(r.tb.Context(), s); err != nil {
		r.tb.Fatal(err)
	}
}

// publish publishes a publication, and returns the ID of the message.
func (r *rig) publish(key, ch, data string) string {
	return r.PublishOrdered(topic, fmt.Appendf(nil, `{"channel":%q,"data":%q}`, ch, data), map[string]string{"centrifugo-method": "publish"}, key)
}

func (r *rig) awaitAck(ids ...string) {
	r.tb.Helper()
	wait.Until(r.tb, "acknowledgement", func() bool {
		return !slices.ContainsFunc(ids, func(id string) bool { return r.Message(id).Acks == 0 })
	})
}

// awaitAll waits until all publications are there, some of them more than once.
func awaitAll(t *testing.T, node *queuetest.Node, want []string) {
	t.Helper()
	slices.Sort(want)
	node.AwaitFor(t, func(got []string) bool {
		got = slices.Clone(got)
		slices.Sort(got)
		return slices.Equal(slices.Compact(got), want)
	})
}

func (r *rig) source(edit func(*config.Consumer)) *Source {
	r.tb.Helper()
	c := config.Consumer{GooglePubSub: config.PubSubConsumer{
		ProjectID: "p", Subscriptions: []string{"gyro"}, MaxOutstandingMessages: 100, MaxOutstandingBytes: 1_000_000, MethodAttribute: "centrifugo-method",
	}}
	if edit != nil {
		edit(&c)
	}
	s, err := New(&c)
	if err != nil {
		r.tb.Fatal(err)
	}
	conn, err := grpc.NewClient(r.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.tb.Fatal(err)
	}
	r.tb.Cleanup(func() { _ = conn.Close() })
	s.options = append(s.options, option.WithGRPCConn(conn))
	return s
}

// TestConsume: messages are executed and acknowledged; another source goes on where the first stopped.
func TestConsume(t *testing.T) {
	t.Parallel()
	r := start(t, false)
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	var want, ids []string
	for round := range 2 {
		for i := range 50 {
			ids = append(ids, r.publish("", "a", fmt.Sprint(round, "-", i)))
			want = append(want, fmt.Sprintf(`a "%d-%d"`, round, i))
		}
		stop := queuetest.Start(t, r.source(nil), queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
		awaitAll(t, node, want)
		stop()
		r.awaitAck(ids...)
		r.awaitGone()
	}
	if processed, failed, gaveUp := meter.Counts(); processed < 100 || failed != 0 || gaveUp != 0 {
		t.Errorf("processed %d, failed %d, gave up %d", processed, failed, gaveUp)
	}
}

// TestEmulator: the environment may name an emulator.
func TestEmulator(t *testing.T) {
	r := start(t, false)
	t.Setenv("PUBSUB_EMULATOR_HOST", r.address)
	s := r.source(nil)
	s.options = nil
	r.publish("", "a", "1")
	node := queuetest.NewNode()
	queuetest.Start(t, s, queuetest.Config(node, nil))
	node.Await(t, 1)
}

// TestOrder: messages with an ordering key are executed one after the other, in their order.
func TestOrder(t *testing.T) {
	t.Parallel()
	r := start(t, true)
	node := queuetest.NewNode()
	queuetest.Start(t, r.source(nil), queuetest.Config(node, nil))
	for i := range 10 { // the fake delivers the next one of a key when the one before it is acknowledged
		for _, key := range []string{"x", "y"} {
			r.publish(key, key, fmt.Sprintf("%02d", i))
		}
	}
	for _, key := range []string{"x", "y"} {
		var of []string
		for _, g := range node.Await(t, 20) {
			if strings.HasPrefix(g, key) {
				of = append(of, g)
			}
		}
		if len(of) != 10 || !slices.IsSorted(of) {
			t.Errorf("got %q", of)
		}
	}
}

// TestBound: no more messages are under way than MaxMessages, or MaxBytes.
func TestBound(t *testing.T) {
	t.Parallel()
	for _, edit := range []func(*config.Consumer){
		func(c *config.Consumer) { c.GooglePubSub.MaxOutstandingMessages = 3 },
		func(c *config.Consumer) { c.GooglePubSub.MaxOutstandingBytes = 3 * len(`{"channel":"a","data":"00"}`) },
	} {
		r := start(t, false)
		node := queuetest.NewNode()
		var mu sync.Mutex
		executing, most := 0, 0
		s := r.source(edit)
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			executing += n
			most = max(most, executing)
		}
		// A dead letter takes its time, as an engine may.
		stop := queuetest.Start(t, s, queuetest.Config(node, func(c *queues.Config) {
			c.DeadLetter = func(context.Context, *queues.Message, error) error {
				count(1)
				defer count(-1)
				time.Sleep(5 * time.Millisecond)
				return nil
			}
		}))
		var ids []string
		for i := range 30 {
			ids = append(ids, r.publish("", "unknown:1", fmt.Sprintf("%02d", i)))
		}
		r.awaitAck(ids...)
		stop()
		if most > 3 {
			t.Errorf("%d messages were under way", most)
		}
	}
}

// TestDataMode: the payload is the data, and attributes are options.
func TestDataMode(t *testing.T) {
	t.Parallel()
	r := start(t, false)
	node := queuetest.NewNode()
	queuetest.Start(t, r.source(nil), queuetest.Config(node, func(c *queues.Config) {
		c.Mode = &config.PublicationDataMode{Enabled: true, Channels: "channels", IdempotencyKey: "key", TagsPrefix: "t-"}
	}))
	r.Publish(topic, []byte("x"), map[string]string{"channels": "a,b", "key": "k", "t-color": "red"})
	if got := node.Await(t, 2); !slices.Equal(got, []string{"a x", "b x"}) {
		t.Errorf("got %q", got)
	}
	if o := node.Options()[0]; o.IdempotencyKey != "k" || o.Tags["color"] != "red" {
		t.Errorf("got %+v", o)
	}
}

// TestRetry: a message that failed is delivered again, while others are executed.
func TestRetry(t *testing.T) {
	t.Parallel()
	r := start(t, false)
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	node.Fails = func(ch string, _ []byte) bool { return ch == "bad" }
	stop := queuetest.Start(t, r.source(nil), queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
	bad := r.publish("", "bad", "1")
	wait.Until(t, "second attempt", func() bool { _, failed, _ := meter.Counts(); return failed > 1 })
	r.publish("", "good", "2")
	node.Await(t, 1)
	node.SetFails(nil)
	if got := node.Await(t, 2); !slices.Equal(got, []string{`good "2"`, `bad "1"`}) {
		t.Errorf("got %q", got)
	}
	stop()
	r.awaitAck(bad)
}

// TestPoison: a message that fails for too long goes to the topic of dead letters.
func TestPoison(t *testing.T) {
	t.Parallel()
	r := start(t, false)
	node := queuetest.NewNode()
	node.Fails = func(ch string, _ []byte) bool { return ch == "bad" }
	s := r.source(func(c *config.Consumer) { c.DeadLetter = "dead" })
	queuetest.Start(t, s, queuetest.Config(node, func(c *queues.Config) { c.RetryTime, c.DeadLetter = time.Millisecond, s.KeepDeadLetter }))
	bad := r.publish("", "bad", "1")
	var letter *pstest.Message
	wait.Until(t, "dead letter", func() bool {
		r.publish("", "good", "2") // or nothing would tell that the message is the reason
		for _, m := range r.Messages() {
			if m.Attributes["gyro-message"] != "" {
				letter = m
			}
		}
		return letter != nil
	})
	r.awaitAck(bad)
	if string(letter.Data) != `{"channel":"bad","data":"1"}` || letter.Attributes["gyro-message"] != "gyro/"+bad ||
		!strings.HasPrefix(letter.Attributes["gyro-reason"], "publish: 100") || letter.Attributes["centrifugo-method"] != "publish" {
		t.Errorf("got %+v", letter)
	}
}

// TestOutage: the source goes on when it may receive from the subscription.
func TestOutage(t *testing.T) {
	t.Parallel()
	r := start(t, false, pstest.WithErrorInjection("GetSubscription", codes.PermissionDenied, "no"))
	if _, err := r.GServer.DeleteSubscription(t.Context(), &pubsubpb.DeleteSubscriptionRequest{Subscription: subscription}); err != nil {
		t.Fatal(err)
	}
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	queuetest.Start(t, r.source(nil), queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
	wait.Until(t, "error", func() bool { _, failed, _ := meter.Counts(); return failed > 0 })
	r.subscribe(false)
	// The first ones may go to a stream that ends because another one was opened before the subscription was there.
	wait.Until(t, "publication", func() bool {
		r.publish("", "a", "1")
		return len(node.Got()) > 0
	})
}

// TestStopWhileBusy: messages that a source stopped with go to the next one.
func TestStopWhileBusy(t *testing.T) {
	t.Parallel()
	for ordered, total := range map[bool]int{false: 300, true: 15} {
		r := start(t, ordered)
		node := queuetest.NewNode()
		key := ""
		if ordered {
			key = "k"
		}
		first := queuetest.Start(t, r.source(nil), queuetest.Config(node, nil))
		var want []string
		for i := range total {
			if r.publish(key, "a", fmt.Sprint(i)); i == total/3 {
				node.Await(t, 1)
				go first()
			}
			want = append(want, fmt.Sprintf(`a "%d"`, i))
		}
		first()
		executed := len(node.Got())
		r.expire()
		stop := queuetest.Start(t, r.source(nil), queuetest.Config(node, nil))
		awaitAll(t, node, want)
		stop()
		if got := node.Got(); slices.ContainsFunc(got[executed:], func(g string) bool { return slices.Contains(got[:executed], g) }) {
			t.Errorf("ordered %v: the second source repeated some of the %d that the first one executed", ordered, executed)
		}
	}
}

// TestStart: what is wrong is told at the start.
func TestStart(t *testing.T) {
	t.Parallel()
	if err := start(t, false).source(func(c *config.Consumer) { c.GooglePubSub.Subscriptions = []string{"other"} }).Connect(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "subscription other: ") {
		t.Errorf("got %v", err)
	}
	// Who may not look at a subscription may still receive from it.
	r := start(t, false, pstest.WithErrorInjection("GetSubscription", codes.PermissionDenied, "no"))
	r.publish("", "a", "1")
	node := queuetest.NewNode()
	queuetest.Start(t, r.source(nil), queuetest.Config(node, nil))
	node.Await(t, 1)

	key := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(key, []byte(`{"type":"service_account","private_key":"hush"`), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"missing.json": "missing.json", key: "credentials: "} {
		s, err := New(&config.Consumer{GooglePubSub: config.PubSubConsumer{
			ProjectID: "p", Subscriptions: []string{"s"}, AuthMechanism: "Service_Account", CredentialsFile: file,
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Connect(t.Context()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", file, err)
		}
		s.Close()
	}
}

// TestProbe: it finds the subscription, or tells that it is not there.
func TestProbe(t *testing.T) {
	t.Parallel()
	r := start(t, false)
	if err := r.source(nil).Probe(t.Context()); err != nil {
		t.Error(err)
	}
	if err := r.source(func(c *config.Consumer) { c.GooglePubSub.Subscriptions = []string{"other"} }).Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "subscription other: ") {
		t.Errorf("got %v", err)
	}
}
