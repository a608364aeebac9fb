// Package brokertest is the conformance suite of the engines. It tests the promises of broker.Broker and
// broker.PresenceManager, the rules of docs/recovery.md for history and positions, and that the traits of an engine are
// true. Every engine passes it.
package brokertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest/internal/pace"
	"github.com/gyrohq/gyro/broker/brokertest/internal/record"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// Capabilities complete the traits of an engine: its channels, its time, and its faults. The zero value is an engine
// that takes any channel, on the wall clock, without faults.
type Capabilities struct {
	// ValidChannel tells which names channels can have. Others must be refused with protocol.ErrorBadRequest by Publish
	// and, unless wildcards are allowed, Subscribe. Default: all.
	ValidChannel func(ch string) bool
	// RealChannel says that Publication.Channel is set.
	RealChannel bool

	// SuppressedRenews says that a publish suppressed by its version renews the stream and its publications. Both are
	// allowed.
	SuppressedRenews bool

	// Virtual runs every test in a synctest bubble: for engines that live in this process entirely. Time costs nothing,
	// and TTLs are tested thoroughly.
	Virtual bool
	// Unit of the times to live in the tests. Default 1 s, the least for engines with a
	// resolution of seconds.
	Unit time.Duration
	// Advance lets time pass for the engine. Default time.Sleep, also for Virtual.
	Advance func(t testing.TB, d time.Duration)
	// Late says that an event from before Subscribe may be delivered nevertheless, because servers pass events on to one
	// another.
	Late bool
	// Fault makes one random fault behind the engine (connections break, a server stops, restarts or loses its data),
	// and returns when the fault is over. r alone decides which. Default: no faults.
	Fault func(t testing.TB, r *rand.Rand)
	// Seed of the schedule of faults.
	Seed uint64
	// MaxPayload is the greatest publication to try, in bytes. Default 1 MiB.
	MaxPayload int

	slow bool // Advance takes real time
}

func (c Capabilities) withDefaults() Capabilities {
	if c.Unit <= 0 {
		c.Unit = time.Second
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

func (c Capabilities) bubble(t *testing.T, test func(t *testing.T)) {
	if c.Virtual {
		synctest.Test(t, test)
		return
	}
	test(t)
}

// needs are the traits without which a test makes no sense.
type needs uint8

const (
	history needs = 1 << iota
	idempotency
	versions
	delta
	batches
	positions
)

func offered(t *broker.Traits) (has needs) {
	for i, ok := range []bool{t.History, t.Idempotency, t.Versions, t.Delta, t.Batch != nil, t.Positions != nil} {
		if ok {
			has |= 1 << i
		}
	}
	return has
}

type brokerTest struct {
	name  string
	needs needs
	run   func(f *fixture)
}

// RunBroker tests the engine that newBroker makes. Each test calls newBroker once, which returns a broker before Run;
// the suite calls Run and Close. The tests are parallel: they run when the caller has returned, so it frees their
// resources by t.Cleanup.
func RunBroker(t *testing.T, newBroker func(t testing.TB) broker.Broker, caps Capabilities) {
	caps = caps.withDefaults()
	var closed closedBrokers
	t.Cleanup(func() { closed.check(t) })
	for _, test := range brokerTests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			caps.bubble(t, func(t *testing.T) {
				f := newFixture(t, newBroker(t), caps, &closed)
				if offered(&f.traits)&test.needs != test.needs {
					t.Skip("the traits of the engine do not offer this")
				}
				test.run(f)
			})
		})
	}
}

var brokerTests = []brokerTest{
	{"Traits", 0, testTraits},
	{"NotOffered", 0, testNotOffered},
	{"Local", 0, testLocal},
	{"Delivery", 0, testDelivery},
	{"DeliveryKeepsTime", 0, testDeliveryKeepsTime},
	{"OnlySubscribed", 0, testOnlySubscribed},
	{"SubscribeTwice", 0, testSubscribeTwice},
	{"JoinLeave", 0, testJoinLeave},
	{"ChannelNames", 0, testChannelNames},
	{"Payloads", 0, testPayloads},
	{"ManyChannels", 0, testManyChannels},
	{"SubscribedWhenReturned", 0, testSubscribedWhenReturned},
	{"Cancelled", 0, testCancelled},
	{"Close", 0, testClose},
	{"RunTwice", 0, testRunTwice},
	{"OrderWithoutHistory", 0, testOrderWithoutHistory},
	{"ConcurrentUse", 0, testConcurrentUse},

	{"HistoryNeedsSizeAndTTL", history, testHistoryNeedsSizeAndTTL},
	{"Offsets", history, testOffsets},
	{"ReadCreatesStream", history, testReadCreatesStream},
	{"HistoryRows", history, testHistoryRows},
	{"HistoryRowsReverse", history, testHistoryRowsReverse},
	{"HistoryFields", history, testHistoryFields},
	{"HistoryMixed", history, testHistoryMixed},
	{"HistorySizeChanges", history, testHistorySizeChanges},
	{"HistoryTTL", history, timely(testHistoryTTL)},
	{"HistoryTTLRenewed", history, timely(testHistoryTTLRenewed)},
	{"MetaTTL", history, timely(testMetaTTL)},
	{"MetaTTLRenewed", history, timely(testMetaTTLRenewed)},
	{"RemoveHistory", history, testRemoveHistory},
	{"Positions", positions | history, testPositions},
	{"PositionsRenewed", positions | history, timely(testPositionsRenewed)},
	{"ResultsBelongToCaller", history, testResultsBelongToCaller},
	{"OrderWithHistory", history, testOrderWithHistory},
	{"NothingLostOnSubscribe", history, testNothingLostOnSubscribe},
	{"Acknowledged", 0, testAcknowledged},
	{"Followed", history, testFollowed},

	{"Idempotency", idempotency, testIdempotency},
	{"IdempotencyHistory", idempotency | history, testIdempotencyHistory},
	{"IdempotencyTTL", idempotency, timely(testIdempotencyTTL)},
	{"IdempotencyConcurrent", idempotency, testIdempotencyConcurrent},
	{"Versions", versions | history, testVersions},
	{"VersionsNeedHistory", versions, testVersionsNeedHistory},
	{"VersionsOutliveHistory", versions | history, timely(testVersionsOutliveHistory)},
	{"VersionsAndIdempotency", versions | history | idempotency, testVersionsAndIdempotency},
	{"Batch", batches, testBatch},
	{"BatchHistory", batches | history, testBatchHistory},
	{"BatchSuppression", batches | idempotency, testBatchSuppression},

	{"Delta", delta | history, testDelta},
	{"DeltaWithoutBase", delta | history, timely(testDeltaWithoutBase)},

	{"Model", history | idempotency | versions | delta, testModel},
}

type fixture struct {
	*testing.T
	caps   Capabilities
	ctx    context.Context
	broker broker.Broker
	traits broker.Traits
	events *record.Recorder
	clock  *pace.Clock // of a timely test
}

// timely returns a test of times to live, in which everything but f.advance takes less than a unit. On a busy machine it
// is tried again with longer units.
func timely(test func(f *fixture)) func(f *fixture) {
	return func(f *fixture) {
		if !f.caps.slow {
			test(f)
			return
		}
		for !pace.Try(f.caps.Unit, func(c *pace.Clock) { f.clock = c; test(f) }) {
			f.caps.Unit *= 2
		}
	}
}

type event = record.Event

// serial makes channels unique: engines may share a backend.
var serial atomic.Int64

func newFixture(t *testing.T, b broker.Broker, caps Capabilities, closed *closedBrokers) *fixture {
	t.Helper()
	f := &fixture{T: t, caps: caps, ctx: context.Background(), broker: b, traits: b.Describe(), events: record.New()}
	if err := b.Run(f.events); err != nil {
		t.Fatalf("Run: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		closed.add(t.Name(), f.events)
	})
	return f
}

// closedBrokers are recorders of closed brokers. The suite looks at them when all tests are over, so no test waits for
// an event that may not come.
type closedBrokers struct {
	mu        sync.Mutex
	recorders map[string]*record.Recorder // by test
}

func (c *closedBrokers) add(test string, r *record.Recorder) {
	r.Seal()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.recorders == nil {
		c.recorders = make(map[string]*record.Recorder)
	}
	c.recorders[test] = r
}

func (c *closedBrokers) check(t *testing.T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for test, r := range c.recorders {
		if n := r.Unsealed(); n > 0 {
			t.Errorf("%s: %d events came after Close had returned", test, n)
		}
	}
}

func (f *fixture) name() string {
	return fmt.Sprintf("test:%d_%d", time.Now().UnixNano(), serial.Add(1))
}

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

func (f *fixture) publish(ch, data string, opts broker.PublishOptions) broker.PublishResult {
	f.Helper()
	return f.publishPub(ch, &channel.Publication{Data: []byte(data)}, opts)
}

func (f *fixture) publishPub(ch string, pub *channel.Publication, opts broker.PublishOptions) broker.PublishResult {
	f.Helper()
	result, err := f.broker.Publish(f.ctx, ch, pub, opts)
	f.must(err)
	f.clock.Check()
	return result
}

func (f *fixture) history(ch string, filter broker.HistoryFilter) broker.History {
	f.Helper()
	h, err := f.broker.History(f.ctx, ch, filter)
	f.must(err)
	f.clock.Check()
	return h
}

func (f *fixture) all(ch string) broker.History {
	f.Helper()
	return f.history(ch, broker.HistoryFilter{Limit: -1})
}

func (f *fixture) advance(units float64) {
	f.Helper()
	d := time.Duration(units * float64(f.caps.Unit))
	f.clock.Pass(d)
	f.caps.Advance(f, d)
}

// kept returns options with times to live that no test reaches.
func (f *fixture) kept(size int) broker.PublishOptions {
	return broker.PublishOptions{HistorySize: size, HistoryTTL: 24 * time.Hour, HistoryMetaTTL: 48 * time.Hour}
}

// wait waits for n events and returns all that came by then.
func (f *fixture) wait(ch string, n int) []event {
	f.Helper()
	events, err := f.events.Wait(ch, wait.Limit, record.AtLeast(n))
	f.must(err)
	return events
}

// wantEvents waits for n events; more are an error.
func (f *fixture) wantEvents(ch string, n int) []event {
	f.Helper()
	events := f.wait(ch, n)
	if len(events) > n {
		f.Fatalf("%d events of %s, want %d: %v", len(events), ch, n, events)
	}
	return events
}

// wantQuiet checks that the channel has got n events, and that no other is under way: it publishes a marker, which comes
// behind all that was accepted before and does not count.
func (f *fixture) wantQuiet(ch string, n int) {
	f.Helper()
	marker := fmt.Sprint("marker ", serial.Add(1))
	f.publish(ch, marker, broker.PublishOptions{})
	events, err := f.events.Wait(ch, wait.Limit, hasData(marker))
	f.must(err)
	if len(events) != n+1 {
		f.Fatalf("%d events of %s before the marker, want %d: %v", len(events)-1, ch, n, events)
	}
	f.events.Drop(ch, func(e event) bool { return e.Pub != nil && string(e.Pub.Data) == marker })
}

func hasData(data string) func([]event) bool {
	return func(events []event) bool {
		return len(events) > 0 && events[len(events)-1].Pub != nil && string(events[len(events)-1].Pub.Data) == data
	}
}

func (f *fixture) equal(what string, got, want any, opts ...cmp.Option) {
	f.Helper()
	opts = append(opts, cmpopts.EquateEmpty())
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		f.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func offsets(pubs []*channel.Publication) []uint64 {
	list := make([]uint64, len(pubs))
	for i, pub := range pubs {
		list[i] = pub.Offset
	}
	return list
}
