// Package stand runs a cluster for tests of faults, and records the view of its clients: subscribers check every
// publication of a numbered sequence, publishers repeat what was not acknowledged, and watches ask the nodes for their
// health.
package stand

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/centrifugal/centrifuge-go"

	"github.com/gyrohq/gyro/e2e/internal/account"
	"github.com/gyrohq/gyro/e2e/internal/atlas"
	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/e2e/internal/wire"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

type Options struct {
	Nodes  int
	Config string
	// Subscribers are spread over nodes and channels. SDKs are clients of the public SDK in addition.
	Subscribers, SDKs int
	// Channels have a publisher each, which waits Every between publications.
	Channels    int
	Every       time.Duration
	AnswerLimit time.Duration
	// Namespace of the channels. Subscriptions are recoverable, unless AtMostOnce is set: then publications may be lost.
	Namespace  string
	AtMostOnce bool
	// Mixed: the publishers of every other channel use no idempotency keys, the others publish some numbers twice, and
	// half of the subscribers take patches (delta).
	Mixed bool
	// Env returns environment variables for node i; nil for none.
	Env func(i int) []string
	// Guests come to channels "room:N", which have presence, and leave. Commanders give commands to clients in channels
	// "plain:N". Both count at a time.
	Guests, Commanders int
	// Maps is how many channels "map:N" there are, each with a writer and, beside it, a channel "brief:N" whose entries
	// expire. MapSubscribers follow one of the two.
	Maps, MapSubscribers int
}

// Stand is a cluster with subscribers and publishers.
type Stand struct {
	// Nodes are the processes. Only Restart and Launch replace them.
	Nodes []*rig.Server

	tb          testing.TB
	opts        Options
	file        string
	env         [][]string
	ctx         context.Context
	subscribers []*Subscriber
	sdks        []*account.SDK
	publishers  []*account.Publisher
	ledgers     []*account.Ledger
	relays      []*rig.Proxy // of the SDKs
	reception   reception
	orders      orders
	atlas       *atlas.Atlas
	// still is locked while no visitor may come or go.
	still    sync.RWMutex
	visitors atomic.Int32
	books    [][]*account.Book
	answers  account.Recorder
	watches  []*watch

	mu       sync.Mutex
	began    time.Time
	failures []string
	proofs   []string
	ends     map[string]int
	// idle resources of the nodes, before any fault.
	idle []usage
}

const patience = time.Minute

// Use reports failures to tb, such as a subtest, from now on.
func (s *Stand) Use(tb testing.TB) { s.tb = tb }

// New returns when all clients are subscribed and receive publications. The stand ends with the test.
func New(tb testing.TB, opts Options) *Stand {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &Stand{tb: tb, opts: opts, ctx: ctx, file: filepath.Join(tb.TempDir(), "config.json"), env: make([][]string, opts.Nodes)}
	if err := os.WriteFile(s.file, []byte(opts.Config), 0o600); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.logs(tb) })
	for i := range opts.Nodes {
		if opts.Env != nil {
			s.env[i] = opts.Env(i)
		}
	}
	for range opts.Channels {
		s.ledgers = append(s.ledgers, &account.Ledger{})
	}
	for i := range opts.Nodes {
		s.Nodes = append(s.Nodes, s.start(i, 0, rig.StartServer))
		tb.Cleanup(func() { s.Nodes[i].Kill() })
	}
	var work sync.WaitGroup
	tb.Cleanup(func() { cancel(); work.Wait() })
	for _, node := range s.Nodes {
		w := newWatch(node.Addr)
		s.watches = append(s.watches, w)
		work.Go(func() { w.work(ctx) })
	}
	s.subscribe(&work)
	s.await("all subscriptions", func() bool {
		return !slices.ContainsFunc(s.subscribers, func(c *Subscriber) bool { return !c.subscribed.Load() })
	})
	s.publish(&work)
	s.caughtUp("the first publications")
	s.receive(&work)
	s.command(&work)
	s.changeMaps(&work)
	s.Begin()
	for i := range s.Nodes {
		s.idle = append(s.idle, s.use(i))
	}
	return s
}

// start starts a node by rig.StartServer or rig.Launch; port 0 stands for any free port.
func (s *Stand) start(i, port int, by func(port int, args, env []string) (*rig.Server, error)) *rig.Server {
	s.tb.Helper()
	if port == 0 {
		port = rig.Port(s.tb)
	}
	node, err := by(port, []string{"-c", s.file, "-p", strconv.Itoa(port)}, s.env[i])
	if err != nil {
		s.tb.Fatal(err)
	}
	return node
}

func (s *Stand) Restart(i int) {
	s.tb.Helper()
	s.Nodes[i], s.idle[i] = s.start(i, s.Nodes[i].Port, rig.StartServer), usage{}
}

// Launch is Restart without the wait.
func (s *Stand) Launch(i int) {
	s.tb.Helper()
	s.Nodes[i], s.idle[i] = s.start(i, s.Nodes[i].Port, rig.Launch), usage{}
}

// Reconfigure gives node i an environment for its next start.
func (s *Stand) Reconfigure(i int, env ...string) {
	s.env[i] = env
}

func (s *Stand) channel(i int) string { return fmt.Sprintf("%s:%d", s.opts.Namespace, i) }

func (s *Stand) subscribe(work *sync.WaitGroup) {
	s.tb.Helper()
	s.books = make([][]*account.Book, s.opts.Channels)
	for i := range s.opts.Subscribers {
		channel := i / s.opts.Nodes % s.opts.Channels
		c := &Subscriber{Channel: s.channel(channel), first: i % len(s.Nodes), check: s.check(channel), fail: s.failed, end: s.ended}
		c.patches = s.opts.Mixed && !s.opts.AtMostOnce && i%2 == 0
		s.open(&c.book, channel, fmt.Sprintf("subscriber %d of %s", i, c.Channel))
		s.books[channel] = append(s.books[channel], &c.book)
		c.nodes = rotated(s.Nodes, i)
		s.subscribers = append(s.subscribers, c)
		work.Go(func() { c.run(s.ctx) })
	}
	for i := range s.opts.SDKs {
		// The SDK takes one address only.
		proxy, err := rig.NewProxy(rotated(s.Nodes, i)...)
		if err != nil {
			s.tb.Fatal(err)
		}
		s.tb.Cleanup(proxy.Close)
		s.relays = append(s.relays, proxy)
		b, channel := &account.Book{}, i%s.opts.Channels
		s.open(b, channel, fmt.Sprintf("SDK %d of %s", i, s.channel(channel)))
		client, err := account.NewSDK(account.Options{
			URL: proxy.WS(), Channel: s.channel(channel), Book: b, Check: s.check(channel), Fail: s.failed,
			Client: centrifuge.Config{
				MinReconnectDelay: 20 * time.Millisecond, MaxReconnectDelay: 500 * time.Millisecond,
				HandshakeTimeout: wire.Timeout, ReadTimeout: answerTimeout, WriteTimeout: wire.Timeout,
			},
			Subscription: centrifuge.SubscriptionConfig{
				Recoverable: true, MinResubscribeDelay: 20 * time.Millisecond, MaxResubscribeDelay: 500 * time.Millisecond,
			},
		})
		if err != nil {
			s.tb.Fatal(err)
		}
		s.tb.Cleanup(client.Close)
		s.sdks = append(s.sdks, client)
		s.books[channel] = append(s.books[channel], b)
	}
	s.await("the SDKs", func() bool {
		return !slices.ContainsFunc(s.sdks, func(c *account.SDK) bool { return !c.Subscribed() })
	})
}

func (s *Stand) changeMaps(work *sync.WaitGroup) {
	s.tb.Helper()
	s.atlas = atlas.New(atlas.Options{
		Nodes: rotated(s.Nodes, 0), Maps: s.opts.Maps, Clients: s.opts.MapSubscribers, Every: s.opts.Every, AnswerLimit: s.opts.AnswerLimit,
		Note: s.answers.Note, Fail: s.failed,
	})
	s.atlas.Follow(s.ctx, work)
	s.await("the subscriptions to maps", s.atlas.Live)
	s.atlas.Write(s.ctx, work)
}

func rotated(nodes []*rig.Server, i int) []string {
	var addrs []string
	for k := range nodes {
		addrs = append(addrs, nodes[(i+k)%len(nodes)].Addr)
	}
	return addrs
}

func (s *Stand) publish(work *sync.WaitGroup) {
	addrs := rotated(s.Nodes, 0)
	transport := &http.Transport{MaxIdleConnsPerHost: s.opts.Channels}
	s.tb.Cleanup(transport.CloseIdleConnections)
	run := strconv.FormatInt(time.Now().UnixNano(), 36)
	for i := range s.opts.Channels {
		p := &account.Publisher{
			Channel: s.channel(i), Run: run, Nodes: addrs, First: i, Every: s.opts.Every,
			Client: &http.Client{Transport: transport, Timeout: s.opts.AnswerLimit}, Recorder: &s.answers, Ledger: s.ledgers[i],
			Text: s.text(i),
		}
		if s.opts.Mixed {
			p.Keyless = s.opts.AtMostOnce || i%2 == 1
			if !p.Keyless {
				p.Doubled = 5
			}
		}
		s.publishers = append(s.publishers, p)
		work.Go(func() { p.Work(s.ctx) })
	}
}

func (s *Stand) open(b *account.Book, channel int, owner string) {
	b.Owner, b.Ledger, b.Lossy = owner, s.ledgers[channel], s.opts.AtMostOnce
	b.Evidence = func(what string) { s.prove(owner + ": " + what) }
}

// text is common to the publications of a channel.
func (s *Stand) text(channel int) string {
	if !s.opts.Mixed {
		return ""
	}
	return strings.Repeat(s.channel(channel)+" tells it, ", 20)
}

func (s *Stand) check(channel int) func(account.Payload) error {
	base := s.text(channel)
	return func(p account.Payload) error {
		if want := account.Text(base, p.N); p.Text != want {
			return fmt.Errorf("number %d has the text %q, want %q", p.N, p.Text, want)
		}
		return nil
	}
}

// Clock returns the time since the span began, for messages.
func (s *Stand) Clock() string { return s.clock(time.Now()) }

func (s *Stand) clock(at time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%+.2fs", at.Sub(s.began).Seconds())
}

func (s *Stand) prove(what string) {
	what = s.Clock() + " " + what
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.proofs) < 20 {
		s.proofs = append(s.proofs, what)
	}
}

func (s *Stand) failed(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.failures) < 20 {
		s.failures = append(s.failures, what)
	}
}

func (s *Stand) ended(how string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends == nil {
		s.ends = map[string]int{}
	}
	s.ends[how]++
}

func (s *Stand) await(what string, done func() bool) {
	s.tb.Helper()
	so := false
	wait.Within(patience, func() bool { so = done(); return so || s.hopeless() })
	if !so {
		s.tb.Fatalf("%s did not come within %v; %s", what, patience, s.state())
	}
}

func (s *Stand) hopeless() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.failures) > 0
}

func (s *Stand) state() string {
	out := ""
	for i, w := range s.watches {
		if says := w.says(); says != fit {
			out += fmt.Sprintf("node %d says %q; ", i, says)
		}
	}
	for i, c := range s.sdks {
		if !c.Subscribed() {
			out += fmt.Sprintf("SDK %d is %s; ", i, c.Describe())
		}
	}
	behind, away := 0, 0
	for _, c := range s.subscribers {
		if !c.subscribed.Load() {
			away++
		}
	}
	for i, p := range s.publishers {
		for _, b := range s.books[i] {
			if reached, acked := b.Reached(), p.Ledger.Acked.Load(); reached < acked {
				behind++
				if behind <= 3 {
					out += fmt.Sprintf("%s has %d of %d; ", b.Owner, reached, acked)
				}
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return out + fmt.Sprintf("%d subscribers behind, %d not subscribed; publishers: %v; failures: %q",
		behind, away, s.answers.Peek(), s.failures)
}

func (s *Stand) caughtUp(what string) {
	s.tb.Helper()
	goals := make([]int64, len(s.publishers))
	for i, p := range s.publishers {
		goals[i] = p.Ledger.Acked.Load() + 1
	}
	s.await(what, func() bool {
		for i, p := range s.publishers {
			if p.Ledger.Acked.Load() < goals[i] {
				return false
			}
			for _, b := range s.books[i] {
				if b.Reached() < goals[i] {
					return false
				}
			}
		}
		return true
	})
}

func (s *Stand) logs(tb testing.TB) {
	if !tb.Failed() {
		return
	}
	for i, node := range s.Nodes {
		log := node.Log()
		if len(log) > 8000 {
			log = log[:4000] + "\n…\n" + log[len(log)-4000:]
		}
		tb.Logf("--- log of node %d on %s\n%s", i, node.Addr, log)
	}
}
