package jetstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/queues/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a server with a stream and a connection to it.
type rig struct {
	*server.Server
	tb   testing.TB
	opts *server.Options
	conn *nats.Conn
	js   jetstream.JetStream
}

func start(tb testing.TB, edit func(*server.Options)) *rig {
	tb.Helper()
	port, err := porttest.Free() // nobody takes it while the server is away
	if err != nil {
		tb.Fatal(err)
	}
	opts := &server.Options{Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: tb.TempDir()}
	if edit != nil {
		edit(opts)
	}
	r := &rig{tb: tb, opts: opts}
	r.run()
	tb.Cleanup(func() {
		r.conn.Close()
		r.Shutdown()
		r.WaitForShutdown()
	})
	r.stream()
	return r
}

// run starts the server, on the same port as before.
func (r *rig) run() {
	s, err := server.NewServer(r.opts)
	if err != nil {
		r.tb.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(wait.Limit) {
		r.tb.Fatal("server does not start")
	}
	if r.Server = s; r.conn != nil {
		return
	}
	url := s.ClientURL()
	if r.conn, err = nats.Connect(url, nats.UserInfo(r.opts.Username, r.opts.Password), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond)); err != nil {
		r.tb.Fatal(err)
	}
	if r.js, err = jetstream.New(r.conn); err != nil {
		r.tb.Fatal(err)
	}
}

// stream makes the stream. The server may be removing the files of the one before, and refuses meanwhile.
func (r *rig) stream() {
	wait.Until(r.tb, "stream", func() bool {
		_, err := r.js.CreateOrUpdateStream(r.tb.Context(), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>", "dead"}})
		if err != nil {
			r.tb.Log(err)
		}
		return err == nil
	})
}

func (r *rig) publish(ch, data string) {
	r.tb.Helper()
	m := nats.NewMsg("events.x")
	m.Data = fmt.Appendf(nil, `{"channel":%q,"data":%q}`, ch, data)
	m.Header.Set("centrifugo-method", "publish")
	if _, err := r.js.PublishMsg(r.tb.Context(), m); err != nil {
		r.tb.Fatal(err)
	}
}

// unacknowledged returns how many messages the consumer waits for, or has not delivered yet.
func (r *rig) unacknowledged() int {
	c, err := r.js.Consumer(r.tb.Context(), "EVENTS", "gyro")
	if err != nil {
		return -1
	}
	info, err := c.Info(r.tb.Context())
	if err != nil {
		return -1
	}
	return info.NumAckPending + int(info.NumPending)
}

// acknowledged waits until the server knows that all messages are acknowledged: it takes acknowledgements
// from its connections at once, and works on them later. One that was never sent stays away for ackWait.
func (r *rig) acknowledged() {
	r.tb.Helper()
	wait.Until(r.tb, "acknowledgement", func() bool { return r.unacknowledged() == 0 })
}

func (r *rig) source(edit func(*config.Consumer)) *Source {
	r.tb.Helper()
	c := config.Consumer{NATSJetStream: config.JetStreamConsumer{
		NATSServer: config.NATSServer{URL: r.ClientURL(), Username: r.opts.Username, Password: r.opts.Password},
		StreamName: "EVENTS", DurableConsumerName: "gyro", Subjects: []string{"events.>"}, MaxAckPending: 100, MethodHeader: "centrifugo-method",
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

// TestConsume: messages are executed in their order and acknowledged; those from before the consumer
// are not delivered.
func TestConsume(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *server.Options) { o.Username, o.Password = "u", "secret" })
	r.publish("a", "before")
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	stop := queuetest.Start(t, r.source(nil), queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
	var want []string
	for i := range 300 {
		r.publish(fmt.Sprint("ch", i%3), fmt.Sprint(i))
		want = append(want, fmt.Sprintf(`ch%d "%d"`, i%3, i))
	}
	if got := node.Await(t, len(want)); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	wait.Until(t, "lag of 0", func() bool { return meter.LagOf("EVENTS") == 0 })
	stop()
	r.acknowledged()
}

// TestRestart: another source goes on where the first stopped, with all that there is.
func TestRestart(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.publish("a", "before")
	node := queuetest.NewNode()
	for i := range 3 {
		stop := queuetest.Start(t, r.source(func(c *config.Consumer) { c.NATSJetStream.DeliverPolicy = "all" }), queuetest.Config(node, nil))
		r.publish("a", fmt.Sprint(i))
		node.Await(t, 2+2*i)
		stop()
		r.publish("a", fmt.Sprint(i, " while away"))
	}
	want := []string{`a "before"`, `a "0"`, `a "0 while away"`, `a "1"`, `a "1 while away"`, `a "2"`}
	if got := node.Got(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestNodes: sources that share the consumer, and come and go, execute each message once.
func TestNodes(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		r := start(t, nil)
		queuetest.Handover(t, nodes, func() queues.Source { return r.source(nil) }, nil, r.publish)
		r.acknowledged()
	}
}

// TestDataMode: the payload is the data, and headers are options.
func TestDataMode(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	node := queuetest.NewNode()
	queuetest.Start(t, r.source(nil), queuetest.Config(node, func(c *queues.Config) {
		c.Mode = &config.PublicationDataMode{Enabled: true, Channels: "channels", Version: "version"}
	}))
	m := nats.NewMsg("events.x")
	m.Data = []byte("x")
	m.Header["channels"], m.Header["version"] = []string{"a,b"}, []string{"7"}
	if _, err := r.js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if got := node.Await(t, 2); !slices.Equal(got, []string{"a x", "b x"}) || node.Options()[0].Version != 7 {
		t.Errorf("got %q %+v", got, node.Options()[0])
	}
}

// TestRetry: a message that failed is delivered again, while others are executed.
func TestRetry(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	node := queuetest.NewNode()
	node.Fails = func(ch string, _ []byte) bool { return ch == "bad" }
	queuetest.Start(t, r.source(nil), queuetest.Config(node, nil))
	r.publish("bad", "1")
	r.publish("good", "2")
	node.Await(t, 1)
	node.SetFails(nil)
	if got := node.Await(t, 2); !slices.Equal(got, []string{`good "2"`, `bad "1"`}) {
		t.Errorf("got %q", got)
	}
	r.acknowledged()
}

// TestPoison: a message that fails for too long goes to the subject of dead letters.
func TestPoison(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	node := queuetest.NewNode()
	node.Fails = func(ch string, _ []byte) bool { return ch == "bad" }
	s := r.source(func(c *config.Consumer) { c.DeadLetter = "dead" })
	queuetest.Start(t, s, queuetest.Config(node, func(c *queues.Config) {
		c.RetryTime, c.DeadLetter = time.Millisecond, s.KeepDeadLetter
	}))
	r.publish("bad", "1")
	stream, err := r.js.Stream(t.Context(), "EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	var letter *jetstream.RawStreamMsg
	wait.Until(t, "dead letter", func() bool {
		r.publish("good", "2") // or nothing would tell that the message is the reason
		letter, err = stream.GetLastMsgForSubject(t.Context(), "dead")
		return err == nil
	})
	r.acknowledged()
	if letter.Header.Get("gyro-message") != "EVENTS 1" || string(letter.Data) != `{"channel":"bad","data":"1"}` ||
		!strings.Contains(letter.Header.Get("gyro-reason"), "100") || letter.Header.Get("centrifugo-method") != "" && len(letter.Header["centrifugo-method"]) != 1 {
		t.Errorf("%+v", letter)
	}
}

// TestDuplicate: a message whose acknowledgement comes too late is executed again.
func TestDuplicate(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	consumer, err := r.js.CreateConsumer(t.Context(), "EVENTS", jetstream.ConsumerConfig{
		Durable: "gyro", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	node := queuetest.NewNode()
	first := true
	node.Fails = func(string, []byte) bool {
		for first {
			info, err := consumer.Info(t.Context())
			if err != nil {
				t.Error(err)
			}
			first = err == nil && info.NumRedelivered == 0
		}
		return false
	}
	queuetest.Start(t, r.source(func(c *config.Consumer) { c.NATSJetStream.UseExistingConsumer = true }), queuetest.Config(node, nil))
	r.publish("a", "1")
	if got := node.Await(t, 2); got[0] != got[1] {
		t.Errorf("got %q", got)
	}
	r.acknowledged()
}

// TestPurged: messages that the stream does not keep any more are passed over.
func TestPurged(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	node := queuetest.NewNode()
	stop := queuetest.Start(t, r.source(nil), queuetest.Config(node, nil))
	r.publish("a", "1")
	node.Await(t, 1)
	stop()
	r.publish("a", "2")
	r.publish("a", "3")
	stream, err := r.js.Stream(t.Context(), "EVENTS")
	if err == nil {
		err = stream.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	r.publish("a", "4")
	queuetest.Start(t, r.source(nil), queuetest.Config(node, nil))
	if got := node.Await(t, 2); !slices.Equal(got, []string{`a "1"`, `a "4"`}) {
		t.Errorf("got %q", got)
	}
}

// TestStreamGone: the source goes on when somebody makes the stream again.
func TestStreamGone(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	queuetest.Start(t, r.source(nil), queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
	r.publish("a", "1")
	node.Await(t, 1)
	if err := r.js.DeleteStream(t.Context(), "EVENTS"); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "error", func() bool { _, failed, _ := meter.Counts(); return failed > 0 })
	r.stream()
	wait.Until(t, "the consumer", func() bool { return r.unacknowledged() == 0 })
	r.publish("a", "2")
	node.AwaitFor(t, func(got []string) bool { return slices.Contains(got, `a "2"`) })
}

// TestConsumerGone: a consumer that was deleted is made again.
func TestConsumerGone(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	node, meter := queuetest.NewNode(), new(queuetest.Meter)
	queuetest.Start(t, r.source(nil), queuetest.Config(node, func(c *queues.Config) { c.Meter = meter }))
	r.publish("a", "1")
	node.Await(t, 1)
	if err := r.js.DeleteConsumer(t.Context(), "EVENTS", "gyro"); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the consumer", func() bool { return r.unacknowledged() == 0 })
	r.publish("a", "2")
	node.Await(t, 2)
	if _, failed, _ := meter.Counts(); failed == 0 {
		t.Error("no error was counted")
	}
}

// TestOutage: the source goes on when the server is back.
func TestOutage(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	node := queuetest.NewNode()
	queuetest.Start(t, r.source(nil), queuetest.Config(node, nil))
	r.publish("a", "1")
	node.Await(t, 1)
	r.Shutdown()
	r.WaitForShutdown()
	r.run()
	wait.Until(t, "connection", r.conn.IsConnected)
	wait.Until(t, "stream", func() bool { _, err := r.js.Stream(t.Context(), "EVENTS"); return err == nil })
	r.publish("a", "2")
	node.AwaitFor(t, func(got []string) bool { return slices.Contains(got, `a "2"`) })
}

// TestStart: what is wrong is told at the start.
func TestStart(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *server.Options) { o.Username, o.Password = "u", "secret" })
	for name, tt := range map[string]struct {
		edit func(*config.Consumer)
		want string
	}{
		"away":      {func(c *config.Consumer) { c.NATSJetStream.URL = "nats://127.0.0.1:1" }, "connecting"},
		"no stream": {func(c *config.Consumer) { c.NATSJetStream.StreamName = "NONE" }, "stream NONE"},
		"no consumer": {func(c *config.Consumer) {
			c.NATSJetStream.UseExistingConsumer, c.NATSJetStream.DurableConsumerName = true, "none"
		}, "consumer none"},
		"wrong secret": {func(c *config.Consumer) { c.NATSJetStream.Password = "hush" }, "Authorization"},
		"no file":      {func(c *config.Consumer) { c.NATSJetStream.CredentialsFile = "/nowhere" }, "/nowhere"},
	} {
		s := r.source(tt.edit)
		err := s.Connect(t.Context())
		s.Close()
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// BenchmarkConsume consumes a stream with 1,000 channels; one operation is one publication.
func BenchmarkConsume(b *testing.B) {
	r := start(b, nil)
	for i := range b.N {
		m := nats.NewMsg("events.x")
		m.Data = fmt.Appendf(nil, `{"channel":"ch%d","data":{"text":"hello, world"}}`, i%1000)
		m.Header.Set("centrifugo-method", "publish")
		if _, err := r.js.PublishMsgAsync(m); err != nil {
			b.Fatal(err)
		}
	}
	<-r.js.PublishAsyncComplete()
	node := queuetest.NewNode()
	b.ResetTimer()
	stop := queuetest.Start(b, r.source(func(c *config.Consumer) { c.NATSJetStream.DeliverPolicy, c.NATSJetStream.MaxAckPending = "all", 10_000 }), queuetest.Config(node, nil))
	node.Await(b, b.N)
	b.StopTimer()
	stop()
}
