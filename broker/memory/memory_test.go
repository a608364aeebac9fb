package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// raceEnabled is set under the race detector, which allocates on its own.
var raceEnabled bool

var ctx = context.Background()

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// handler calls itself for publications and ignores the rest.
type handler func(ch string, e broker.PublicationEvent)

func (h handler) HandlePublication(ch string, e broker.PublicationEvent) { h(ch, e) }
func (h handler) HandleJoin(string, *channel.ClientInfo)                 {}
func (h handler) HandleLeave(string, *channel.ClientInfo)                {}
func (h handler) HandleLoss(func(string) bool)                           {}

func ignore(string, broker.PublicationEvent) {}

func newBroker(t testing.TB, h handler) *Broker {
	t.Helper()
	b := New(Config{})
	if err := b.Run(h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(ctx) })
	return b
}

func publish(t testing.TB, b *Broker, ch string, opts broker.PublishOptions) channel.StreamPosition {
	t.Helper()
	result, err := b.Publish(ctx, ch, &channel.Publication{Data: []byte("{}")}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return result.Position
}

// size counts what the broker holds.
func (b *Broker) size() (channels, results, scheduled int) {
	for i := range b.stripes {
		s := &b.stripes[i]
		s.mu.Lock()
		channels += len(s.channels.m)
		results += len(s.results.m)
		s.mu.Unlock()
	}
	b.expiryQueue.mu.Lock()
	defer b.expiryQueue.mu.Unlock()
	return channels, results, len(b.expiryQueue.heap)
}

func TestMemoryIsGivenBack(t *testing.T) {
	const channels = 100_000
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, ignore)
		opts := broker.PublishOptions{HistorySize: 4, HistoryTTL: time.Minute, HistoryMetaTTL: time.Hour, IdempotencyKey: "key"}
		names := make([]string, channels)
		for i := range names {
			names[i] = fmt.Sprint("channel", i)
		}
		before := heapInUse()
		for _, ch := range names {
			publish(t, b, ch, opts)
		}
		full := heapInUse() - before
		if c, r, s := b.size(); c != channels || r != channels || s != 2*channels {
			t.Fatalf("%d channels, %d results, %d scheduled", c, r, s)
		}
		time.Sleep(10 * time.Minute)
		if c, r, s := b.size(); c != channels || r != 0 || s != channels {
			t.Fatalf("after 10 minutes: %d channels, %d results, %d scheduled", c, r, s)
		}
		time.Sleep(time.Hour)
		if c, r, s := b.size(); c != 0 || r != 0 || s != 0 {
			t.Fatalf("after an hour: %d channels, %d results, %d scheduled", c, r, s)
		}
		if left := heapInUse() - before; left > full/10 {
			t.Errorf("%d of %d bytes are still in use", left, full)
		} else {
			t.Logf("%d bytes per channel at most, %d in all at the end", full/channels, left)
		}
		runtime.KeepAlive(names)
	})
}

func TestSubscriptionsAreGivenBack(t *testing.T) {
	b := newBroker(t, ignore)
	const channels = 100_000
	names := make([]string, channels)
	for i := range names {
		names[i] = fmt.Sprint("channel", i)
	}
	before := heapInUse()
	for _, to := range []func(context.Context, ...string) error{b.Subscribe, b.Unsubscribe} {
		if err := to(ctx, names...); err != nil {
			t.Fatal(err)
		}
	}
	if c, _, _ := b.size(); c != 0 {
		t.Errorf("%d channels", c)
	}
	if left := heapInUse() - before; left > 3<<20 {
		t.Errorf("%d bytes are still in use", left)
	}
	runtime.KeepAlive(names)
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestBusyStreamIsScheduledOnce checks that publishing does not pile up notes,
// and that what is put off is still found.
func TestBusyStreamIsScheduledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, ignore)
		opts := broker.PublishOptions{HistorySize: 4, HistoryTTL: 10 * time.Second, HistoryMetaTTL: time.Minute}
		for range 100 {
			publish(t, b, "a", opts)
			time.Sleep(3 * time.Second)
			if c, _, s := b.size(); c != 1 || s != 1 {
				t.Fatalf("%d channels, %d scheduled", c, s)
			}
		}
		time.Sleep(12 * time.Second)
		_, s := b.locate("a")
		s.mu.Lock()
		if n := s.channels.get("a").stream.pubs.count; n != 0 {
			t.Errorf("%d publications after their end", n)
		}
		s.mu.Unlock()
		time.Sleep(time.Minute)
		if c, _, s := b.size(); c != 0 || s != 0 {
			t.Errorf("%d channels, %d scheduled", c, s)
		}
	})
}

// TestSubscribedChannelSurvivesItsStream checks that the end of a stream leaves
// the subscription alone.
func TestSubscribedChannelSurvivesItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := 0
		b := newBroker(t, func(string, broker.PublicationEvent) { got++ })
		if err := b.Subscribe(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		opts := broker.PublishOptions{HistorySize: 4, HistoryTTL: time.Second, HistoryMetaTTL: time.Minute}
		first := publish(t, b, "a", opts)
		time.Sleep(2 * time.Minute)
		if second := publish(t, b, "a", opts); second.Epoch == first.Epoch || got != 2 {
			t.Errorf("positions %v and %v, %d events", first, second, got)
		}
	})
}

// TestMetaOutlivesPublications checks that a meta TTL which is too short does
// not take the publications along.
func TestMetaOutlivesPublications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, ignore)
		top := publish(t, b, "a", broker.PublishOptions{HistorySize: 4, HistoryTTL: time.Hour, HistoryMetaTTL: time.Second})
		for range 2 {
			time.Sleep(20 * time.Minute)
			h, err := b.History(ctx, "a", broker.HistoryFilter{Limit: -1, MetaTTL: time.Second})
			if err != nil || h.Top != top || len(h.Publications) != 1 {
				t.Errorf("%+v, %v", h, err)
			}
		}
	})
}

func TestDefaultMetaTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, ignore)
		opts := broker.PublishOptions{HistorySize: 4, HistoryTTL: time.Hour}
		first := publish(t, b, "a", opts)
		time.Sleep(30*24*time.Hour - time.Second)
		second := publish(t, b, "a", opts)
		time.Sleep(30*24*time.Hour + time.Second)
		third := publish(t, b, "a", opts)
		if second.Epoch != first.Epoch || second.Offset != 2 || third.Epoch == first.Epoch || third.Offset != 1 {
			t.Errorf("%v, %v, %v", first, second, third)
		}
	})
}

// TestEndlessTTL checks that no time to live is too long.
func TestEndlessTTL(t *testing.T) {
	b := newBroker(t, ignore)
	const forever = time.Duration(1<<63 - 1)
	opts := broker.PublishOptions{HistorySize: 2, HistoryTTL: forever, HistoryMetaTTL: forever, IdempotencyKey: "a", IdempotencyTTL: forever}
	first := publish(t, b, "a", opts)
	if again := publish(t, b, "a", opts); again != first {
		t.Errorf("%v, want %v", again, first)
	}
	h, err := b.History(ctx, "a", broker.HistoryFilter{Limit: 10, MetaTTL: forever})
	if err != nil || len(h.Publications) != 1 {
		t.Errorf("%+v, %v", h, err)
	}
}

// TestBlockedHandler holds a handler call and checks who waits for it: the
// publishers of the channel and Close; nobody else.
func TestBlockedHandler(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	var order []uint64
	b := newBroker(t, func(ch string, e broker.PublicationEvent) {
		if ch != "a" {
			return
		}
		if e.Pub.Offset == 1 {
			close(entered)
			<-release
		}
		order = append(order, e.Pub.Offset)
	})
	if err := b.Subscribe(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	turnOf := func(ch string) *sync.Mutex {
		lock, _ := b.locate(ch)
		return lock
	}
	opts := broker.PublishOptions{HistorySize: 4, HistoryTTL: time.Hour}
	var publishers sync.WaitGroup
	publishers.Go(func() { publish(t, b, "a", opts) })
	<-entered
	publishers.Go(func() { _, _ = b.Publish(ctx, "a", &channel.Publication{}, opts) })

	h, err := b.History(ctx, "a", broker.HistoryFilter{Limit: -1})
	if err != nil || h.Top.Offset != 1 || len(h.Publications) != 1 {
		t.Errorf("history of the blocked channel: %+v, %v", h, err)
	}
	if err := b.Subscribe(ctx, "a", "b"); err != nil {
		t.Error(err)
	}
	other := "b"
	for turnOf(other) == turnOf("a") {
		other += "b"
	}
	publish(t, b, other, opts)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := b.Close(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("Close during a handler call: %v", err)
	}
	close(release)
	if err := b.Close(ctx); err != nil {
		t.Error(err)
	}
	publishers.Wait()
	if len(order) != 1 {
		t.Errorf("delivered %v, want the first one alone", order)
	}
}

func TestNotRunning(t *testing.T) {
	b := New(Config{})
	closed := New(Config{})
	if err := closed.Run(handler(ignore)); err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*Broker{b, closed} {
		_, errPublish := b.Publish(ctx, "a", &channel.Publication{}, broker.PublishOptions{})
		_, errHistory := b.History(ctx, "a", broker.HistoryFilter{})
		for i, err := range []error{
			errPublish, errHistory, b.PublishJoin(ctx, "a", nil), b.PublishLeave(ctx, "a", nil),
			b.Subscribe(ctx, "a"), b.Unsubscribe(ctx, "a"), b.RemoveHistory(ctx, "a"),
		} {
			if !errors.Is(err, errNotRunning) {
				t.Errorf("%d: %v", i, err)
			}
		}
		if c, r, s := b.size(); c+r+s != 0 {
			t.Errorf("%d channels, %d results, %d scheduled", c, r, s)
		}
	}
	if err := closed.Run(handler(ignore)); !errors.Is(err, errRunTwice) {
		t.Error(err)
	}
}

func TestEpochs(t *testing.T) {
	b, other := newBroker(t, ignore), newBroker(t, ignore)
	seen := map[string]bool{}
	for i := range 10_000 {
		ch := fmt.Sprint(i)
		epoch := readTop(t, b, ch).Epoch
		if len(epoch) != 8 || seen[epoch] || epoch == readTop(t, other, ch).Epoch {
			t.Fatalf("epoch %q", epoch)
		}
		for _, c := range epoch {
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
				t.Fatalf("epoch %q", epoch)
			}
		}
		seen[epoch] = true
	}
}

func readTop(t testing.TB, b *Broker, ch string) channel.StreamPosition {
	t.Helper()
	h, err := b.History(ctx, ch, broker.HistoryFilter{Limit: -1})
	if err != nil {
		t.Fatal(err)
	}
	return h.Top
}

// TestReadsCostNothing: neither who reads any number of channels without publications
// nor who subscribes to them, and leaves, makes the broker hold anything.
func TestReadsCostNothing(t *testing.T) {
	b := newBroker(t, ignore)
	for i := range 100_000 {
		ch := fmt.Sprint("channel", i)
		top := readTop(t, b, ch)
		if i%10 > 0 {
			continue
		}
		if err := b.Subscribe(ctx, ch); err != nil {
			t.Fatal(err)
		}
		if again := b.Positions(ctx, []string{ch}, 0)[0].Top; again != top {
			t.Fatalf("top %v, then %v", top, again)
		}
		if err := errors.Join(b.RemoveHistory(ctx, ch), b.Unsubscribe(ctx, ch)); err != nil {
			t.Fatal(err)
		}
	}
	if c, r, s := b.size(); c != 0 || r != 0 || s != 0 {
		t.Errorf("%d channels, %d results, %d scheduled", c, r, s)
	}
}

// TestLives: no epoch of a stream that had publications comes back when it has ended;
// who read a channel without publications is found at the first one, if the channel is
// subscribed, or if few streams have ended meanwhile; and what is known of ended streams
// has a bound.
func TestLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, ignore)
		opts := broker.PublishOptions{HistorySize: 1, HistoryTTL: time.Second, HistoryMetaTTL: time.Second}
		if err := b.Subscribe(ctx, "empty and subscribed", "watched 1"); err != nil {
			t.Fatal(err)
		}
		empty, subscribed := readTop(t, b, "empty"), readTop(t, b, "empty and subscribed")
		over := map[string]bool{} // epochs of ended streams
		few := true
		for round := range 26 {
			var current []string
			for i := range 3000 {
				ch := fmt.Sprint("watched ", i)
				if i >= 30 {
					ch = fmt.Sprint("passing ", round, i)
				}
				before := readTop(t, b, ch)
				if rand.IntN(3) == 0 && i < 30 {
					continue // no publications in this life
				}
				first := publish(t, b, ch, opts)
				if first != (channel.StreamPosition{Offset: 1, Epoch: before.Epoch}) || over[first.Epoch] {
					t.Fatalf("round %d, %s: read %v, published %v", round, ch, before, first)
				}
				current = append(current, first.Epoch)
			}
			time.Sleep(3 * time.Second)
			for _, epoch := range current {
				over[epoch] = true
			}
			few = few && b.ended() == len(over)
			if top := readTop(t, b, "empty and subscribed"); top != subscribed {
				t.Fatalf("round %d: top %v, then %v", round, subscribed, top)
			}
			if top := readTop(t, b, "empty"); few && top != empty {
				t.Fatalf("round %d: top %v, then %v", round, empty, top)
			}
		}
		if n := b.ended(); few || n > stripeCount*maxEnded {
			t.Errorf("%d of %d ended streams are told apart", n, len(over))
		}
		if c, _, s := b.size(); c != 2 || s != 0 {
			t.Errorf("%d channels, %d scheduled", c, s)
		}
	})
}

// ended counts the ended streams that are told apart.
func (b *Broker) ended() (n int) {
	for i := range b.stripes {
		s := &b.stripes[i]
		s.mu.Lock()
		n += len(s.lives.ended)
		s.mu.Unlock()
	}
	return n
}

// TestRing compares the ring with a slice while its size changes.
func TestRing(t *testing.T) {
	var r ring
	var want []packed
	size := 1
	for i := range 20_000 {
		if i%50 == 0 {
			size = 1 + rand.IntN(1<<rand.IntN(10))
		}
		r.push(compact{packed: packed(i + 1)}, size)
		want = append(want, packed(i+1))
		want = want[max(0, len(want)-size):]
		if r.count != len(want) {
			t.Fatalf("step %d: %d entries, want %d", i, r.count, len(want))
		}
		for j := range want {
			if r.at(j).packed != want[j] {
				t.Fatalf("step %d: entry %d is %d, want %d", i, j, r.at(j).packed, want[j])
			}
		}
		held := 0
		for _, p := range r.buf {
			if p.packed != 0 {
				held++
			}
		}
		if held != len(want) {
			t.Fatalf("step %d: the ring holds on to %d publications, want %d", i, held, len(want))
		}
	}
	for range 20 {
		r.push(compact{}, 1)
	}
	if len(r.buf) > 8 {
		t.Errorf("a buffer of %d for one publication", len(r.buf))
	}
}

// thing is something in an expiryQueue.
type thing struct {
	queuePlace
	at int64
}

func (*thing) expire(*Broker, int64) {}

// TestAgenda compares the heap with a map.
func TestAgenda(t *testing.T) {
	a := expiryQueue{clock: func() int64 { return 0 }, sweeping: true} // the timer stays off
	var things []*thing
	for range 50 {
		things = append(things, &thing{})
	}
	scheduled := map[*thing]bool{}
	for range 20_000 {
		e := things[rand.IntN(len(things))]
		switch rand.IntN(5) {
		case 0:
			a.cancel(e)
			delete(scheduled, e)
		case 1:
			now := rand.Int64N(1000)
			for _, due := range a.take(nil, now) {
				if e := due.(*thing); !scheduled[e] || e.at > now {
					t.Fatal("not due")
				}
				delete(scheduled, due.(*thing))
			}
			for e := range scheduled {
				if e.at <= now {
					t.Fatal("due but not taken")
				}
			}
		default:
			e.at = rand.Int64N(2000)
			a.schedule(e, e.at)
			scheduled[e] = true
		}
		if len(a.heap) != len(scheduled) {
			t.Fatalf("%d elements, want %d", len(a.heap), len(scheduled))
		}
		for i, n := range a.heap {
			if n.what.place().index != i+1 || i > 0 && a.heap[(i-1)/2].at > n.at {
				t.Fatal("the heap is out of order")
			}
		}
	}
}

func TestPresenceIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPresence(Config{})
		const channels, clients = 1000, 20
		before := heapInUse()
		for i := range channels * clients {
			info := &channel.ClientInfo{Client: fmt.Sprint(i), User: fmt.Sprint(i % 3)}
			if err := p.Add(ctx, fmt.Sprint(i%channels), info); err != nil {
				t.Fatal(err)
			}
		}
		full := heapInUse() - before
		time.Sleep(62 * time.Second) // nobody calls anything
		for i := range p.stripes {
			s := &p.stripes[i]
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.channels.m) > 0 || s.oldest != nil || s.newest != nil {
				t.Fatalf("stripe %d holds %d channels", i, len(s.channels.m))
			}
		}
		if p.armed.Load() {
			t.Error("the timer still runs")
		}
		if left := heapInUse() - before; left > full/8 {
			t.Errorf("%d of %d bytes are still in use", left, full)
		}
		runtime.KeepAlive(p)
	})
}

// When a position has been read, the handler has had everything up to it.
func TestPositionsAreBehindTheHandler(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	var handled atomic.Uint64
	b := New(Config{})
	if err := b.Run(handler(func(_ string, e broker.PublicationEvent) {
		begun <- struct{}{}
		<-release
		handled.Store(e.Pub.Offset)
	})); err != nil {
		t.Fatal(err)
	}
	defer b.Close(ctx)
	if err := b.Subscribe(ctx, "ch"); err != nil {
		t.Fatal(err)
	}
	for want := uint64(1); want <= 50; want++ {
		done := make(chan error)
		go func() {
			_, err := b.Publish(ctx, "ch", &channel.Publication{}, broker.PublishOptions{HistorySize: 1, HistoryTTL: time.Minute})
			done <- err
		}()
		<-begun
		if h, err := b.History(ctx, "ch", broker.HistoryFilter{}); err != nil || h.Top.Offset != want {
			t.Fatalf("history up to %d, %v", h.Top.Offset, err)
		}
		go func() {
			p := b.Positions(ctx, []string{"other", "ch"}, 0)
			if top := p[1].Top; p[0].Err != nil || p[1].Err != nil || top.Offset != want || top.Epoch == "" || top.Offset != handled.Load() {
				t.Errorf("positions %+v, handled %d of %d", p, handled.Load(), want)
			}
			done <- nil
		}()
		runtime.Gosched()
		release <- struct{}{}
		for range 2 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A batch says of each publication whether it was kept or handed on. Of most, a history keeps but a part.
func TestUnkept(t *testing.T) {
	handed := make(map[*channel.Publication]bool)
	b := newBroker(t, func(_ string, e broker.PublicationEvent) { handed[e.Pub] = true })
	if err := b.Subscribe(ctx, "heard", "heard and kept"); err != nil {
		t.Fatal(err)
	}
	history := broker.PublishOptions{HistorySize: 9, HistoryTTL: time.Hour}
	old := history
	old.IdempotencyKey = "k"
	for range 2 { // the second time the key is known
		var batch []broker.BatchItem
		for ch, opts := range map[string]broker.PublishOptions{
			"heard": {}, "heard and kept": history, "kept": history, "neither": {}, "key": {IdempotencyKey: "k"}, "old": old,
			"kept as a whole": history,
		} {
			pub := &channel.Publication{Data: []byte(ch)}
			if ch == "kept as a whole" {
				pub.Tags = map[string]string{"a": "b"}
			}
			batch = append(batch, broker.BatchItem{Channel: ch, Pub: pub, Options: opts})
		}
		b.PublishBatch(ctx, batch)
		for _, item := range batch {
			stored, err := b.History(ctx, item.Channel, broker.HistoryFilter{Limit: -1})
			if err != nil || item.Err != nil {
				t.Fatal(err, item.Err)
			}
			if kept := handed[item.Pub] || slices.Contains(stored.Publications, item.Pub); item.Unkept == kept {
				t.Errorf("%s: unkept is %v", item.Channel, item.Unkept)
			}
		}
	}
}
