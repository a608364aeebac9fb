package stand

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/centrifugal/centrifuge-go"

	"github.com/gyrohq/gyro/e2e/internal/rig"
)

// Options of a stand.
type Options struct {
	// Nodes is how many run, and Config the configuration file of each.
	Nodes  int
	Config string
	// Subscribers in all, spread over nodes and channels. SDKs is how many clients of
	// the public SDK come on top.
	Subscribers, SDKs int
	// Channels with a publisher each, which pauses for Every between publications.
	Channels int
	Every    time.Duration
	// AnswerLimit is how long an answer of the API may take.
	AnswerLimit time.Duration
	// Namespace of the channels, whose subscriptions are recoverable, but with
	// AtMostOnce: then numbers may be missing without a word.
	Namespace  string
	AtMostOnce bool
}

// Stand is a cluster with subscribers and publishers.
type Stand struct {
	// Nodes may be replaced by Restart only.
	Nodes []*rig.Server

	tb          testing.TB
	opts        Options
	file        string
	env         [][]string
	ctx         context.Context
	subscribers []*Subscriber
	sdks        []*centrifuge.Client
	publishers  []*publisher
	// books of the subscribers of each channel.
	books   [][]*book
	answers answers
	watches []*watch

	mu       sync.Mutex
	failures []string
	ends     map[string]int
	// idle resources of the nodes, before any fault.
	idle []usage
}

// patience bounds how long anything may take to come back once a fault has ended.
const patience = 30 * time.Second

// Use has tb fail from now on, which may be a subtest of what New was given.
func (s *Stand) Use(tb testing.TB) { s.tb = tb }

// New starts everything and returns when all subscriptions stand and publications
// flow. It ends with the test.
func New(tb testing.TB, opts Options) *Stand {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &Stand{tb: tb, opts: opts, ctx: ctx, file: filepath.Join(tb.TempDir(), "config.json"), env: make([][]string, opts.Nodes)}
	if err := os.WriteFile(s.file, []byte(opts.Config), 0o600); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.logs(tb) })
	for i := range opts.Nodes {
		s.Nodes = append(s.Nodes, s.start(i, 0))
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
	s.Begin()
	for i := range s.Nodes {
		s.idle = append(s.idle, s.use(i))
	}
	return s
}

// start starts a node; port 0 stands for any.
func (s *Stand) start(i, port int) *rig.Server {
	s.tb.Helper()
	var err error
	if port == 0 {
		if port, err = rig.FreePort(); err != nil {
			s.tb.Fatal(err)
		}
	}
	node, err := rig.StartServer(port, []string{"-c", s.file, "-p", strconv.Itoa(port)}, s.env[i])
	if err != nil {
		s.tb.Fatal(err)
	}
	return node
}

// Restart starts a killed node again at its address.
func (s *Stand) Restart(i int) {
	s.tb.Helper()
	_, port := splitAddr(s.Nodes[i].Addr)
	s.Nodes[i] = s.start(i, port)
	s.idle[i] = usage{}
}

// Reconfigure gives node i an environment for its next start.
func (s *Stand) Reconfigure(i int, env ...string) {
	s.env[i] = env
}

func (s *Stand) channel(i int) string { return fmt.Sprintf("%s:%d", s.opts.Namespace, i) }

func (s *Stand) subscribe(work *sync.WaitGroup) {
	s.tb.Helper()
	s.books = make([][]*book, s.opts.Channels)
	for i := range s.opts.Subscribers {
		channel := i / s.opts.Nodes % s.opts.Channels
		c := &Subscriber{Channel: s.channel(channel), first: i % len(s.Nodes), fail: s.failed, end: s.ended}
		c.book.lossy = s.opts.AtMostOnce
		s.books[channel] = append(s.books[channel], &c.book)
		c.nodes = rotated(s.Nodes, i)
		s.subscribers = append(s.subscribers, c)
		work.Go(func() { c.run(s.ctx) })
	}
	for i := range s.opts.SDKs {
		// It knows one address only.
		proxy, err := rig.NewProxy(rotated(s.Nodes, i)...)
		if err != nil {
			s.tb.Fatal(err)
		}
		s.tb.Cleanup(proxy.Close)
		b, channel := &book{lossy: s.opts.AtMostOnce}, i%s.opts.Channels
		client, err := newSDK(proxy.WS(), s.channel(channel), b, s.failed)
		if err != nil {
			s.tb.Fatal(err)
		}
		s.tb.Cleanup(client.Close)
		s.sdks = append(s.sdks, client)
		s.books[channel] = append(s.books[channel], b)
	}
	s.await("the SDKs", func() bool {
		return !slices.ContainsFunc(s.sdks, func(c *centrifuge.Client) bool {
			for _, sub := range c.Subscriptions() {
				if sub.State() != centrifuge.SubStateSubscribed {
					return true
				}
			}
			return false
		})
	})
}

// rotated returns the addresses of nodes, beginning with number i.
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
		p := &publisher{
			channel: s.channel(i), run: run, nodes: addrs, key: rig.APIKey, every: s.opts.Every,
			client: &http.Client{Transport: transport, Timeout: s.opts.AnswerLimit}, answers: &s.answers,
		}
		s.publishers = append(s.publishers, p)
		work.Go(func() { p.work(s.ctx, i) })
	}
}

// failed notes what must not happen to a client.
func (s *Stand) failed(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.failures) < 20 {
		s.failures = append(s.failures, what)
	}
}

// ended counts how connections end.
func (s *Stand) ended(how string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends == nil {
		s.ends = map[string]int{}
	}
	s.ends[how]++
}

// await polls until done says so.
func (s *Stand) await(what string, done func() bool) {
	s.tb.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) || s.hopeless() {
			s.tb.Fatalf("%s did not come within %v; %s", what, patience, s.state())
		}
	}
}

// hopeless tells whether something happened that must not.
func (s *Stand) hopeless() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.failures) > 0
}

// state tells what the parts are doing, for the message of a failure.
func (s *Stand) state() string {
	out := ""
	for i, w := range s.watches {
		if says := w.says(); says != fit {
			out += fmt.Sprintf("node %d says %q; ", i, says)
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
			if b.reached() < p.acked.Load() {
				behind++
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return out + fmt.Sprintf("%d subscribers behind, %d not subscribed; publishers: %v; failures: %q",
		behind, away, s.answers.peek(), s.failures)
}

// caughtUp waits until every subscriber has what will be acknowledged next, or
// something later.
func (s *Stand) caughtUp(what string) {
	s.tb.Helper()
	marks := make([]int64, len(s.publishers))
	for i, p := range s.publishers {
		marks[i] = p.acked.Load() + 1
	}
	s.await(what, func() bool {
		for i, p := range s.publishers {
			if p.acked.Load() < marks[i] {
				return false
			}
			for _, b := range s.books[i] {
				if b.reached() < marks[i] {
					return false
				}
			}
		}
		return true
	})
}

// logs shows what the nodes wrote, if the test failed.
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
