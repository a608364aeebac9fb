// Package queuetest has shared parts of the tests of sources.
package queuetest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/queues"
)

// Node remembers publications.
type Node struct {
	api.Node // nil: only publications are executed
	mu       sync.Mutex
	changed  chan struct{}
	got      []string // channel and data
	Fails    func(channel string, data []byte) bool
	options  []gyro.PublishOptions
}

// NewNode returns a node; Fails may be set before it is used.
func NewNode() *Node { return &Node{changed: make(chan struct{})} }

// PublishBatch implements api.Node.
func (n *Node) PublishBatch(_ context.Context, batch []gyro.BatchPublication) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range batch {
		b := &batch[i]
		if n.Fails != nil && n.Fails(b.Channel, b.Data) {
			b.Err = protocol.ErrorInternal
			continue
		}
		n.got = append(n.got, b.Channel+" "+string(b.Data))
		n.options = append(n.options, *b.Options)
	}
	close(n.changed)
	n.changed = make(chan struct{})
}

// Got returns the publications so far.
func (n *Node) Got() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.got...)
}

// Options returns the options of the publications so far.
func (n *Node) Options() []gyro.PublishOptions {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]gyro.PublishOptions(nil), n.options...)
}

// Await waits for so many publications, and returns them.
func (n *Node) Await(tb testing.TB, count int) []string {
	tb.Helper()
	return n.AwaitFor(tb, func(got []string) bool { return len(got) >= count })
}

// AwaitFor waits until ok, and returns the publications.
func (n *Node) AwaitFor(tb testing.TB, ok func(got []string) bool) []string {
	tb.Helper()
	timeout := time.After(wait.Limit)
	for {
		n.mu.Lock()
		got, changed := n.got, n.changed
		n.mu.Unlock()
		if ok(got) {
			return got
		}
		select {
		case <-changed:
		case <-timeout:
			tb.Fatalf("got %d publications: %.2000q", len(got), got)
		}
	}
}

// SetFails changes Fails while the node is used.
func (n *Node) SetFails(fails func(channel string, data []byte) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.Fails = fails
}

func resolver() *channels.Resolver {
	c := config.DefaultConfig().Channel
	c.Namespaces = []config.Namespace{{Name: "chat"}}
	r, err := channels.NewResolver(c, config.PersonalChannel{})
	if err != nil {
		panic(err)
	}
	return r
}

// Meter counts.
type Meter struct {
	mu                       sync.Mutex
	processed, failed, given int
	lag                      map[string]int64
}

// Processed implements queues.Meter.
func (m *Meter) Processed(n int) { m.mu.Lock(); m.processed += n; m.mu.Unlock() }

// Failed implements queues.Meter.
func (m *Meter) Failed() { m.mu.Lock(); m.failed++; m.mu.Unlock() }

// GaveUp implements queues.Meter.
func (m *Meter) GaveUp(n int) { m.mu.Lock(); m.given += n; m.mu.Unlock() }

// Lag implements queues.Meter.
func (m *Meter) Lag(part string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lag == nil {
		m.lag = make(map[string]int64)
	}
	m.lag[part] = n
}

// Counts returns the counts.
func (m *Meter) Counts() (processed, failed, gaveUp int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.processed, m.failed, m.given
}

// LagOf returns the lag of a part, -1 if there is none.
func (m *Meter) LagOf(part string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n, ok := m.lag[part]; ok {
		return n
	}
	return -1
}

// Config of a processor that executes on node; edit may change it.
func Config(node *Node, edit func(*queues.Config)) queues.Config {
	log := slog.New(slog.DiscardHandler)
	c := queues.Config{
		Name: "test", Meter: queues.NoMeter{}, Logger: log,
		Executor: api.NewExecutor(api.Config{Node: node, Channels: resolver, Logger: log}),
	}
	if edit != nil {
		edit(&c)
	}
	return c
}

// Start connects a source and runs it until the test ends or stop is called, which waits for the end.
func Start(tb testing.TB, s queues.Source, c queues.Config) (stop func()) {
	tb.Helper()
	connecting, connected := context.WithTimeout(tb.Context(), wait.Limit)
	defer connected()
	if err := s.Connect(connecting); err != nil {
		s.Close()
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		defer s.Close()
		done <- s.Run(ctx, context.Background(), queues.NewProcessor(c))
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				tb.Error(err)
			}
		case <-time.After(wait.Limit):
			tb.Error("the source does not stop")
		}
	})
	tb.Cleanup(stop)
	return stop
}

// Handover starts and stops sources of one queue, nodes of them at a time, while add adds publications to the queue, and
// tests that each is executed exactly once.
func Handover(tb testing.TB, nodes int, source func() queues.Source, edit func(*queues.Config), add func(ch, data string)) {
	tb.Helper()
	const messages = 400
	node := NewNode()
	var stops []func()
	start := func() { stops = append(stops, Start(tb, source(), Config(node, edit))) }
	for range nodes {
		start()
	}
	var want []string
	var stopping sync.WaitGroup
	for i := range messages {
		ch, data := fmt.Sprint("ch", i%7), strconv.Itoa(i)
		add(ch, data)
		want = append(want, fmt.Sprintf("%s %q", ch, data))
		if i%(messages/4) == messages/8 {
			stopping.Go(stops[0]) // messages come meanwhile
			stops = stops[1:]
			start()
		}
	}
	stopping.Wait()
	node.Await(tb, messages)
	for _, stop := range stops {
		stop()
	}
	got := node.Got()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		tb.Errorf("%d messages were executed %d times: %q", messages, len(got), got)
	}
}
