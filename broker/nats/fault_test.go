package nats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

func publish(b *Broker, ch, data string) error {
	_, err := b.Publish(context.Background(), ch, &channel.Publication{Data: []byte(data)}, broker.PublishOptions{})
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func healthy(b *Broker) bool { return b.Health()[0].Err == nil }

// A server that goes away is told of at once, and all is restored when it is back.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	first := startServer(t, nil)
	port := first.Addr().(*net.TCPAddr).Port
	got := newEvents()
	b := newBroker(t, Config{URL: first.ClientURL(), RequestTimeout: wait.Limit}) // longer than all calls that fail at once may take
	controls := make(chan string, 10)
	must(t, b.RunControl("me", func(data []byte) { controls <- string(data) }))
	must(t, b.Run(got))
	defer b.Close(context.Background())
	must(t, b.Subscribe(t.Context(), "a", "b"))
	must(t, publish(b, "a", "1"))
	got.next(t, "publication")

	first.Shutdown()
	first.WaitForShutdown()
	wait.Until(t, "unhealthy", func() bool { return !healthy(b) })
	start := time.Now()
	for range 10 {
		if err := publish(b, "a", "lost"); !errors.Is(err, errDisconnected) {
			t.Errorf("publishing without a server: %v", err)
		}
	}
	if err := b.PublishControl(t.Context(), "", nil); !errors.Is(err, errDisconnected) {
		t.Errorf("control without a server: %v", err)
	}
	if d := time.Since(start); d > wait.Limit {
		t.Errorf("that took %v", d)
	}
	if err := b.Health()[0].Err; !strings.Contains(err.Error(), "no connection") {
		t.Errorf("health: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	if err := b.Subscribe(ctx, "d"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("subscribing without a server: %v", err)
	}
	cancel()
	subscribed := make(chan error, 1)
	go func() { subscribed <- b.Subscribe(context.Background(), "c") }()
	must(t, b.Unsubscribe(t.Context(), "b"))

	startServer(t, &server.Options{Port: port})
	if loss := got.next(t, "loss"); !loss.lost("a") || !loss.lost("z") {
		t.Error("loss of few")
	}
	must(t, <-subscribed)
	for _, ch := range []string{"b", "a", "c"} {
		must(t, publish(b, ch, "2"))
	}
	for _, ch := range []string{"a", "c"} {
		if e := got.next(t, "publication"); e.ch != ch || string(e.pub.Data) != "2" {
			t.Errorf("%s of %s", e.pub.Data, e.ch)
		}
	}
	must(t, b.PublishControl(t.Context(), "me", []byte("hello")))
	if c := <-controls; c != "hello" {
		t.Error(c)
	}
	wait.Until(t, "healthy", func() bool { return healthy(b) })
	waiting, dropped := b.counts()
	if n := b.Health()[0].Reconnects; n != 1 || waiting != 0 || dropped != 0 {
		t.Errorf("%d reconnects, %d events wait, %d were dropped", n, waiting, dropped)
	}
}

// What the client gives up for is mended too.
func TestClientGivesUp(t *testing.T) {
	t.Parallel()
	for _, raw := range []bool{false, true} {
		got := newEvents()
		b := newBroker(t, Config{URL: startServer(t, nil).ClientURL(), Raw: RawMode{Enabled: raw}})
		controls := make(chan string, 10)
		must(t, b.RunControl("me", func(data []byte) { controls <- string(data) }))
		must(t, b.Run(got))
		defer b.Close(context.Background())
		for i := range 100 {
			must(t, b.Subscribe(t.Context(), fmt.Sprint("ch", i)))
		}
		for range 3 {
			b.conn.Load().Close()
			var pubs sync.WaitGroup
			for i := range 8 { // subscribers that come meanwhile
				pubs.Go(func() {
					ch := fmt.Sprint("new", i)
					if err := b.Subscribe(context.Background(), ch); err != nil {
						t.Error(err)
					}
				})
			}
			got.next(t, "loss")
			pubs.Wait()
			for i := range 100 {
				ch := fmt.Sprint("ch", i)
				must(t, publish(b, ch, "1"))
				if e := got.next(t, "publication"); e.ch != ch {
					t.Errorf("raw %v: %s instead of %s", raw, e.ch, ch)
				}
			}
			must(t, b.PublishControl(t.Context(), "", []byte("hello")))
			if c := <-controls; c != "hello" {
				t.Error(c)
			}
		}
	}
}

// proxy stands between broker and server, and can hold everything up.
type proxy struct {
	net.Listener
	target string
	wg     sync.WaitGroup
	mu     sync.Mutex
	conns  []net.Conn
	frozen atomic.Pointer[chan struct{}]
}

func newProxy(t testing.TB, target string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{Listener: l, target: strings.TrimPrefix(target, "nats://")}
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		p.thaw()
		l.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) serve() {
	for {
		in, err := p.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil {
			in.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, in, out)
		p.mu.Unlock()
		p.wg.Go(func() { p.copy(out, in) })
		p.wg.Go(func() { p.copy(in, out) })
	}
}

func (p *proxy) copy(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if f := p.frozen.Load(); f != nil {
			<-*f
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) freeze() { p.frozen.Store(new(make(chan struct{}))) }

func (p *proxy) thaw() {
	if f := p.frozen.Swap(nil); f != nil {
		close(*f)
	}
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func (p *proxy) url() string { return "nats://" + p.Addr().String() }

// A connection that carries nothing is found by its canaries, although it seems to
// be fine.
func TestFrozen(t *testing.T) {
	t.Parallel()
	p := newProxy(t, startServer(t, nil).ClientURL())
	got := newEvents()
	b := newBroker(t, Config{URL: p.url(), RequestTimeout: time.Second, DialTimeout: time.Second})
	b.monitor.period = 200 * time.Millisecond
	must(t, b.Run(got))
	defer b.Close(context.Background())
	must(t, b.Subscribe(t.Context(), "a"))
	wait.Until(t, "a canary", func() bool { return b.Health()[0].Delay > 0 })

	p.freeze()
	start := time.Now()
	if err := publish(b, "a", "lost"); err == nil {
		t.Error("published into the void")
	}
	if d := time.Since(start); d > wait.Limit {
		t.Errorf("that took %v", d)
	}
	wait.Until(t, "unhealthy", func() bool { return !healthy(b) })
	p.thaw()
	got.next(t, "loss")
	wait.Until(t, "a delivery", func() bool { // a busy machine may hold up canaries again
		return publish(b, "a", "1") == nil && wait.Within(time.Second, func() bool { return len(got) > 0 })
	})
	if e := got.next(t, "publication"); e.ch != "a" {
		t.Error(e)
	}
	wait.Until(t, "healthy", func() bool { return healthy(b) })
}

// Whatever the connection does: acknowledged publications are delivered, or the
// loss is told.
func TestTrueAnswers(t *testing.T) {
	t.Parallel()
	p := newProxy(t, startServer(t, nil).ClientURL())
	url := p.url()
	var received sync.Map
	receiver := run(t, Config{URL: "nats://" + p.target}, ledger{&received})
	must(t, receiver.Subscribe(t.Context(), "a"))
	b := run(t, Config{URL: url}, ignore{})

	ctx, cancel := context.WithCancel(t.Context())
	var publishers sync.WaitGroup
	var accepted sync.Map
	var count atomic.Int64
	for worker := range 8 {
		publishers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprint(worker, ".", i)
				if publish(b, "a", id) == nil {
					accepted.Store(id, true)
					count.Add(1)
				} else {
					time.Sleep(time.Millisecond) // do not keep a processor busy while there is no connection
				}
			}
		})
	}
	for range 10 {
		enough := count.Load() + 20
		wait.Until(t, "publications are accepted", func() bool { return count.Load() >= enough })
		p.cut()
	}
	cancel()
	publishers.Wait()
	wait.Until(t, "connected", func() bool { return b.dialer.flowing.Load() != 0 })
	must(t, publish(b, "a", "end"))
	wait.Until(t, "the last one", func() bool { _, ok := received.Load("end"); return ok })
	n := 0
	accepted.Range(func(id, _ any) bool {
		n++
		if _, ok := received.Load(id); !ok {
			t.Errorf("%v was accepted and is lost", id)
		}
		return true
	})
	if n < 100 {
		t.Errorf("only %d publications", n)
	}
}

// ledger writes down what was received.
type ledger struct{ m *sync.Map }

func (r ledger) HandlePublication(_ string, e broker.PublicationEvent) {
	r.m.Store(string(e.Pub.Data), true)
}
func (ledger) HandleJoin(string, *channel.ClientInfo)  {}
func (ledger) HandleLeave(string, *channel.ClientInfo) {}
func (ledger) HandleLoss(func(string) bool)            {}

// A node that is behind loses events of the channels that are too many, and is told
// which, when it goes on.
func TestNodeBehind(t *testing.T) {
	t.Parallel()
	url := startServer(t, nil).ClientURL()
	h := &stuck{events: newEvents(), release: make(chan struct{})}
	b := newBroker(t, Config{URL: url, PendingBytes: minPendingBytes})
	must(t, b.Run(h))
	defer b.Close(context.Background())
	must(t, b.Subscribe(t.Context(), "a", "b"))
	if b.receiver.worker("a") == b.receiver.worker("b") && len(b.receiver.workers) > 1 {
		t.Log("one worker for both")
	}
	big := strings.Repeat("x", 100<<10)
	for range 60 { // 6 MB
		must(t, publish(b, "a", big))
	}
	select {
	case e := <-h.events:
		t.Fatalf("%+v in front of the first", e)
	default:
	}
	wait.Until(t, "events wait, and some are dropped", func() bool { waiting, dropped := b.counts(); return waiting > 0 && dropped > 0 })
	close(h.release)
	loss := h.events.next(t, "loss")
	if !loss.lost("a") || loss.lost("b") {
		t.Error("loss of other channels")
	}
	must(t, publish(b, "a", "end"))
	for {
		if e := h.events.next(t, "publication"); string(e.pub.Data) == "end" {
			break
		}
	}
}

type stuck struct {
	events
	release chan struct{}
}

func (s *stuck) HandlePublication(ch string, e broker.PublicationEvent) {
	<-s.release
	s.events.HandlePublication(ch, e)
}

// What the client has no room for is lost, and told, each time.
func TestIntakeOverflow(t *testing.T) {
	t.Parallel()
	url := startServer(t, nil).ClientURL()
	sender := run(t, Config{URL: url}, ignore{})
	got := newEvents()
	b := newBroker(t, Config{URL: url})
	b.monitor.period = 20 * time.Millisecond
	must(t, b.RunControl("me", func([]byte) {})) // connects, but takes nothing
	must(t, b.Subscribe(t.Context(), "a", "rare"))
	batch := make([]broker.BatchItem, receiverSize+10)
	for i := range batch {
		batch[i] = broker.BatchItem{Channel: "a", Pub: &channel.Publication{}}
	}
	batch[len(batch)-1].Channel = "rare"
	sender.PublishBatch(t.Context(), batch)
	overflows := func() int {
		b.monitor.mu.Lock()
		defer b.monitor.mu.Unlock()
		return len(b.monitor.overflows)
	}
	lost := func(forget bool) (n int) {
		for _, l := range b.receiver.workers {
			l.mu.Lock()
			n += len(l.lose)
			if forget {
				l.lose = nil
			}
			l.mu.Unlock()
		}
		return n
	}
	wait.Until(t, "overflow", func() bool { return lost(false) == 2 })
	lost(true) // what was told once
	must(t, publish(sender, "rare", "dropped again, which the client does not tell"))
	must(t, b.flusher.flush(t.Context()))
	must(t, b.Run(drain{got}))
	defer b.Close(context.Background())
	for !got.next(t, "loss").lost("rare") {
	}
	// The loss may come of a broken connection, so that the receiver may still be full.
	wait.Until(t, "forgotten", func() bool {
		must(t, publish(sender, "rare", "1"))
		must(t, publish(sender, "a", "1"))
		return overflows() == 0
	})
}

type drain struct{ events }

func (drain) HandlePublication(string, broker.PublicationEvent) {}

func TestNotPermitted(t *testing.T) {
	t.Parallel()
	deny := func(subjects ...string) *server.SubjectPermission { return &server.SubjectPermission{Deny: subjects} }
	s := startServer(t, &server.Options{Users: []*server.User{
		{Username: "some", Password: "secret", Permissions: &server.Permissions{
			Publish: deny("gyro.client.no.>"), Subscribe: deny("gyro.client.no.>"),
		}},
		{Username: "none", Password: "secret", Permissions: &server.Permissions{Publish: deny("gyro.>")}},
	}})
	b := run(t, Config{URL: s.ClientURL(), User: "some", Password: "secret"}, ignore{})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for range 20 {
				if err := publish(b, fmt.Sprint("no.", i), "1"); !isDenied(err) {
					t.Errorf("publishing where that is not permitted: %v", err)
				}
				if err := publish(b, fmt.Sprint("yes.", i), "1"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := b.Subscribe(t.Context(), "yes.1", "no.1"); !isDenied(err) {
		t.Errorf("subscribing where that is not permitted: %v", err)
	}
	must(t, b.Unsubscribe(t.Context(), "yes.1", "no.1"))
	must(t, b.Subscribe(t.Context(), "yes.1"))
	batch := []broker.BatchItem{{Channel: "no.1", Pub: &channel.Publication{}}, {Channel: "yes.1", Pub: &channel.Publication{}}}
	b.PublishBatch(t.Context(), batch)
	if !isDenied(batch[0].Err) || batch[1].Err != nil {
		t.Errorf("batch: %v, %v", batch[0].Err, batch[1].Err)
	}

	err := newBroker(t, Config{URL: s.ClientURL(), User: "none", Password: "secret"}).Run(ignore{})
	if !isDenied(err) || strings.Contains(err.Error(), "secret") {
		t.Errorf("start without permissions: %v", err)
	}
}

// Close does not wait for a server that is away.
func TestCloseWithoutServer(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	b := newBroker(t, Config{URL: s.ClientURL()})
	must(t, b.Run(ignore{}))
	s.Shutdown()
	s.WaitForShutdown()
	waiting := make(chan error, 1)
	go func() { waiting <- b.Subscribe(context.Background(), "a") }()
	start := time.Now()
	must(t, b.Close(t.Context()))
	if err := <-waiting; err == nil {
		t.Error("subscribed at nobody")
	}
	if d := time.Since(start); d > wait.Limit {
		t.Errorf("closing took %v", d)
	}
	if err := publish(b, "a", "1"); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	if b.Health()[0].Err == nil || b.Run(ignore{}) == nil {
		t.Error("alive after Close")
	}
	must(t, newBroker(t, Config{}).Close(t.Context())) // that was never run
}

// Who sends to a node that is not connected is told so.
func TestControlWithoutReceiver(t *testing.T) {
	t.Parallel()
	url := startServer(t, nil).ClientURL()
	controls := make(chan string, 100)
	var nodes [2]*Broker
	for i := range nodes {
		nodes[i] = newBroker(t, Config{URL: url})
		must(t, nodes[i].RunControl(fmt.Sprint("node", i), func(data []byte) { controls <- string(data) }))
		must(t, nodes[i].Run(newEvents()))
		t.Cleanup(func() { _ = nodes[i].Close(context.Background()) })
	}
	for range 3 {
		must(t, nodes[0].PublishControl(t.Context(), "node1", []byte("x")))
		wait.Receive(t, "a message", controls)
	}
	must(t, nodes[1].Close(t.Context()))
	wait.Until(t, "the end of the connection", func() bool {
		return errors.Is(nodes[0].PublishControl(t.Context(), "node1", []byte("y")), broker.ErrNoReceiver)
	})
	must(t, nodes[0].PublishControl(t.Context(), "", []byte("to all")))
	must(t, nodes[0].PublishControl(t.Context(), "node0", []byte("to itself")))
}
