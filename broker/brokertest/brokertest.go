// Package brokertest is the conformance suite of the engines: what
// broker.Broker and broker.PresenceManager promise, and what recovery.md
// (sections 1 to 3 and 7) demands of them. Every engine passes it.
package brokertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest/follower"
	"github.com/gyrohq/gyro/channel"
)

// Capabilities say what an engine lacks and how its time passes. The zero value
// is an engine with everything, on the wall clock.
type Capabilities struct {
	NoHistory     bool // publications are never remembered
	NoReverse     bool // history cannot be read from the newest to the oldest
	NoIdempotency bool // idempotency keys are ignored
	NoVersions    bool // versions are ignored
	NoDelta       bool // the previous publication is not delivered along

	// ValidChannel tells which names channels can have. Others must be refused with
	// protocol.ErrorBadRequest by Publish and, unless it allows wildcards, Subscribe.
	// Default: all.
	ValidChannel func(ch string) bool
	// RealChannel says that Publication.Channel is set to the channel.
	RealChannel bool

	// SuppressedRenews says that a publish suppressed by its version renews the
	// life of the stream and its publications. The specification allows both.
	SuppressedRenews bool

	// Virtual runs every test in a synctest bubble: for engines that live in this
	// process whole. Time costs nothing then and TTLs are tested thoroughly.
	Virtual bool
	// Unit of the times to live in the tests. Default and the least that engines
	// with a resolution of seconds can do: 1 s.
	Unit time.Duration
	// Advance lets time pass for the engine. Default time.Sleep, which is right for
	// Virtual too.
	Advance func(t testing.TB, d time.Duration)
	// Settle is how long to wait for an event that must not come. Default 100 ms.
	Settle time.Duration
	// Fault has one random thing happen to what is behind the engine (its connections
	// break, its server stops, restarts, forgets), and returns when that has gone. It
	// draws from r alone what happens. Default: nothing does.
	Fault func(t testing.TB, r *rand.Rand)
	// Seed of the schedule of faults.
	Seed uint64
	// MaxPayload is the greatest publication to try, in bytes. Default 1 MiB.
	MaxPayload int

	slow bool // letting time pass takes time
}

func (c Capabilities) withDefaults() Capabilities {
	if c.Unit <= 0 {
		c.Unit = time.Second
	}
	if c.Settle <= 0 {
		c.Settle = 100 * time.Millisecond
	}
	if c.MaxPayload <= 0 {
		c.MaxPayload = 1 << 20
	}
	if c.ValidChannel == nil {
		c.ValidChannel = func(string) bool { return true }
	}
	if c.Advance == nil {
		c.slow = !c.Virtual
		c.Advance = func(_ testing.TB, d time.Duration) { time.Sleep(d) }
	}
	return c
}

// bubble runs test where the engine's time is.
func (c Capabilities) bubble(t *testing.T, test func(t *testing.T)) {
	if c.Virtual {
		synctest.Test(t, test)
		return
	}
	test(t)
}

// brokerTest is one test of the suite and what the engine must not lack for it.
type brokerTest struct {
	name string
	skip bool
	run  func(f *fixture)
}

// RunBroker tests the engine that newBroker makes. newBroker is called once per
// test, within it, and returns a broker on which Run was not called; the suite
// calls Run and Close.
func RunBroker(t *testing.T, newBroker func(t testing.TB) broker.Broker, caps Capabilities) {
	caps = caps.withDefaults()
	for _, test := range brokerTests(caps) {
		t.Run(test.name, func(t *testing.T) {
			if test.skip {
				t.Skip("the engine does not have this")
			}
			caps.bubble(t, func(t *testing.T) { test.run(newFixture(t, newBroker(t), caps)) })
		})
	}
}

func brokerTests(c Capabilities) []brokerTest {
	return []brokerTest{
		{"Delivery", false, testDelivery},
		{"DeliveryKeepsTime", false, testDeliveryKeepsTime},
		{"OnlySubscribed", false, testOnlySubscribed},
		{"SubscribeTwice", false, testSubscribeTwice},
		{"JoinLeave", false, testJoinLeave},
		{"ChannelNames", false, testChannelNames},
		{"Payloads", false, testPayloads},
		{"ManyChannels", false, testManyChannels},
		{"SubscribedWhenReturned", false, testSubscribedWhenReturned},
		{"Cancelled", false, testCancelled},
		{"Close", false, testClose},
		{"RunTwice", false, testRunTwice},
		{"OrderWithoutHistory", false, testOrderWithoutHistory},
		{"ConcurrentUse", false, testConcurrentUse},

		{"HistoryNeedsSizeAndTTL", c.NoHistory, testHistoryNeedsSizeAndTTL},
		{"Offsets", c.NoHistory, testOffsets},
		{"ReadCreatesStream", c.NoHistory, testReadCreatesStream},
		{"HistoryRows", c.NoHistory, testHistoryRows},
		{"HistoryRowsReverse", c.NoHistory || c.NoReverse, testHistoryRowsReverse},
		{"HistoryFields", c.NoHistory, testHistoryFields},
		{"HistoryMixed", c.NoHistory, testHistoryMixed},
		{"HistorySizeChanges", c.NoHistory, testHistorySizeChanges},
		{"HistoryTTL", c.NoHistory, testHistoryTTL},
		{"HistoryTTLRenewed", c.NoHistory, testHistoryTTLRenewed},
		{"MetaTTL", c.NoHistory, testMetaTTL},
		{"MetaTTLRenewed", c.NoHistory, testMetaTTLRenewed},
		{"RemoveHistory", c.NoHistory, testRemoveHistory},
		{"Positions", c.NoHistory, testPositions},
		{"ResultsBelongToCaller", c.NoHistory, testResultsBelongToCaller},
		{"OrderWithHistory", c.NoHistory, testOrderWithHistory},
		{"NothingLostOnSubscribe", c.NoHistory, testNothingLostOnSubscribe},
		{"Acknowledged", false, testAcknowledged},
		{"Followed", c.NoHistory, testFollowed},

		{"Idempotency", c.NoIdempotency, testIdempotency},
		{"IdempotencyHistory", c.NoIdempotency || c.NoHistory, testIdempotencyHistory},
		{"IdempotencyTTL", c.NoIdempotency, testIdempotencyTTL},
		{"IdempotencyConcurrent", c.NoIdempotency, testIdempotencyConcurrent},
		{"Versions", c.NoVersions || c.NoHistory, testVersions},
		{"VersionsNeedHistory", c.NoVersions, testVersionsNeedHistory},
		{"VersionsOutliveHistory", c.NoVersions || c.NoHistory, testVersionsOutliveHistory},
		{"VersionsAndIdempotency", c.NoVersions || c.NoHistory || c.NoIdempotency, testVersionsAndIdempotency},
		{"Batch", false, testBatch},
		{"BatchHistory", c.NoHistory, testBatchHistory},
		{"BatchSuppression", c.NoIdempotency, testBatchSuppression},

		{"Delta", c.NoDelta || c.NoHistory, testDelta},
		{"DeltaWithoutBase", c.NoDelta || c.NoHistory, testDeltaWithoutBase},

		{"Model", c.NoHistory || c.NoReverse || c.NoIdempotency || c.NoVersions || c.NoDelta, testModel},
	}
}

// fixture is a running broker and what it has delivered.
type fixture struct {
	*testing.T
	caps   Capabilities
	ctx    context.Context
	broker broker.Broker
	events *recorder
}

// serial makes channel names that no other test has used, since engines may
// share a backend.
var serial atomic.Int64

func newFixture(t *testing.T, b broker.Broker, caps Capabilities) *fixture {
	t.Helper()
	f := &fixture{T: t, caps: caps, ctx: context.Background(), broker: b, events: newRecorder()}
	if err := b.Run(f.events); err != nil {
		t.Fatalf("Run: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return f
}

// name returns a fresh channel name.
func (f *fixture) name() string {
	return fmt.Sprintf("test:%d_%d", time.Now().UnixNano(), serial.Add(1))
}

// channel returns a fresh channel that is subscribed.
func (f *fixture) channel() string {
	f.Helper()
	ch := f.name()
	f.subscribe(ch)
	return ch
}

func (f *fixture) subscribe(channels ...string) {
	f.Helper()
	f.must(f.broker.Subscribe(f.ctx, channels...))
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// publish publishes data and expects success.
func (f *fixture) publish(ch, data string, opts broker.PublishOptions) broker.PublishResult {
	f.Helper()
	return f.publishPub(ch, &channel.Publication{Data: []byte(data)}, opts)
}

func (f *fixture) publishPub(ch string, pub *channel.Publication, opts broker.PublishOptions) broker.PublishResult {
	f.Helper()
	result, err := f.broker.Publish(f.ctx, ch, pub, opts)
	f.must(err)
	return result
}

// history reads and expects success.
func (f *fixture) history(ch string, filter broker.HistoryFilter) broker.History {
	f.Helper()
	h, err := f.broker.History(f.ctx, ch, filter)
	f.must(err)
	return h
}

// all reads the whole history.
func (f *fixture) all(ch string) broker.History {
	f.Helper()
	return f.history(ch, broker.HistoryFilter{Limit: -1})
}

func (f *fixture) advance(units float64) {
	f.Helper()
	f.caps.Advance(f, time.Duration(units*float64(f.caps.Unit)))
}

// kept are options with room for size publications and long lives.
func (f *fixture) kept(size int) broker.PublishOptions {
	return broker.PublishOptions{HistorySize: size, HistoryTTL: 100 * f.caps.Unit, HistoryMetaTTL: 1000 * f.caps.Unit}
}

// wantEvents waits for n events of the channel and returns them. More than n are
// an error.
func (f *fixture) wantEvents(ch string, n int) []event {
	f.Helper()
	events := f.events.wait(f, ch, n)
	if len(events) > n {
		f.Fatalf("%d events of %s, want %d: %v", len(events), ch, n, events)
	}
	return events
}

// wantQuiet waits for a while in which the channel must get no event beyond n.
func (f *fixture) wantQuiet(ch string, n int) {
	f.Helper()
	f.caps.settle(f)
	if events := f.events.of(ch); len(events) != n {
		f.Fatalf("%d events of %s, want %d: %v", len(events), ch, n, events)
	}
}

func (c Capabilities) settle(t *fixture) {
	if c.Virtual {
		synctest.Wait()
		return
	}
	time.Sleep(c.Settle)
}

func (f *fixture) equal(what string, got, want any, opts ...cmp.Option) {
	f.Helper()
	opts = append(opts, cmpopts.EquateEmpty())
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		f.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// offsets lists the offsets of publications.
func offsets(pubs []*channel.Publication) []uint64 {
	list := make([]uint64, len(pubs))
	for i, pub := range pubs {
		list[i] = pub.Offset
	}
	return list
}

// event is anything that a broker delivers.
type event struct {
	kind string // "publication", "join", "leave"
	broker.PublicationEvent
	info *channel.ClientInfo
}

func (e event) String() string {
	if e.Pub == nil {
		return e.kind
	}
	return fmt.Sprintf("%d:%.20q", e.Pub.Offset, e.Pub.Data)
}

// recorder is an event handler that remembers. It also checks that events of one
// channel come one at a time.
type recorder struct {
	mu      sync.Mutex
	events  map[string][]event
	busy    map[string]bool
	overlap string // a channel that had two calls at a time
	losses  []loss
	changed chan struct{}

	follower atomic.Pointer[follower.Follower] // hears of everything as well
}

func newRecorder() *recorder {
	return &recorder{events: map[string][]event{}, busy: map[string]bool{}, changed: make(chan struct{})}
}

func (r *recorder) HandlePublication(ch string, e broker.PublicationEvent) {
	if follower := r.follower.Load(); follower != nil {
		follower.HandlePublication(ch, e)
	}
	r.add(ch, event{kind: "publication", PublicationEvent: e})
}

func (r *recorder) HandleJoin(ch string, info *channel.ClientInfo) {
	r.add(ch, event{kind: "join", info: info})
}

func (r *recorder) HandleLeave(ch string, info *channel.ClientInfo) {
	r.add(ch, event{kind: "leave", info: info})
}

// HandleLoss is allowed at any time: tests of engines look at what follows.
func (r *recorder) HandleLoss(match func(ch string) bool) {
	if follower := r.follower.Load(); follower != nil {
		follower.HandleLoss(match)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := make(map[string]int, len(r.events))
	for ch, events := range r.events {
		counts[ch] = len(events)
	}
	r.losses = append(r.losses, loss{match, counts})
}

// loss is a call of HandleLoss, and how many events of the channels came before it.
type loss struct {
	match  func(ch string) bool
	counts map[string]int
}

// lost tells whether HandleLoss was called for the channel when k events of it had
// come, or later.
func (r *recorder) lost(ch string, k int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.losses, func(l loss) bool { return l.counts[ch] >= k && l.match(ch) })
}

func (r *recorder) add(ch string, e event) {
	r.mu.Lock()
	if r.busy[ch] {
		r.overlap = ch
	}
	r.busy[ch] = true
	r.mu.Unlock()

	runtime.Gosched() // here another call for ch, or a later event, would show itself
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy[ch] = false
	r.events[ch] = append(r.events[ch], e)
	close(r.changed)
	r.changed = make(chan struct{})
}

// of returns what has been delivered for the channel.
func (r *recorder) of(ch string) []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]event(nil), r.events[ch]...)
}

// change returns a channel that is closed at the next event.
func (r *recorder) change() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// wait blocks until there are n events of the channel.
func (r *recorder) wait(f *fixture, ch string, n int) []event {
	f.Helper()
	timeout := time.NewTimer(10 * time.Second)
	defer timeout.Stop()
	for {
		r.mu.Lock()
		changed, overlap := r.changed, r.overlap
		r.mu.Unlock()
		if overlap != "" {
			f.Fatalf("two events of %s were delivered at a time", overlap)
		}
		if events := r.of(ch); len(events) >= n {
			return events
		}
		select {
		case <-changed:
		case <-timeout.C:
			f.Fatalf("%d events of %s after 10 s, want %d", len(r.of(ch)), ch, n)
		}
	}
}
