package brokertest

import (
	"fmt"
	"sync"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

func (f *fixture) units(n int) time.Duration { return time.Duration(n) * f.caps.Unit }

func (f *fixture) wantSuppressed(ch string, pub *channel.Publication, opts broker.PublishOptions, want broker.PublishResult) {
	f.Helper()
	events := len(f.events.Of(ch))
	f.equal("result", f.publishPub(ch, pub, opts), want)
	f.wantQuiet(ch, events)
}

func testIdempotency(f *fixture) {
	ch, other := f.channel(), f.channel()
	opts := broker.PublishOptions{IdempotencyKey: "key", IdempotencyTTL: f.units(100)}
	f.equal("first", f.publish(ch, "1", opts), broker.PublishResult{})
	f.wantEvents(ch, 1)
	// Only the key counts, not the data.
	f.wantSuppressed(ch, &channel.Publication{Data: []byte("2")}, opts, broker.PublishResult{Suppressed: broker.SuppressIdempotency})

	f.publish(other, "1", opts) // another scope
	f.wantEvents(other, 1)
	opts.IdempotencyKey = "key2"
	f.publish(ch, "3", opts)
	f.publish(ch, "4", broker.PublishOptions{})
	f.wantEvents(ch, 3)
}

func testIdempotencyHistory(f *fixture) {
	ch := f.channel()
	opts := f.kept(10)
	opts.IdempotencyKey = "a"
	first := f.publish(ch, "1", opts).Position
	f.publish(ch, "2", f.kept(10))
	f.wantEvents(ch, 2)
	f.wantSuppressed(ch, &channel.Publication{Data: []byte("3")}, opts,
		broker.PublishResult{Position: first, Suppressed: broker.SuppressIdempotency})
	f.equal("history", offsets(f.all(ch).Publications), []uint64{1, 2})
	f.equal("next", f.publish(ch, "4", f.kept(10)).Position.Offset, uint64(3))
}

func testIdempotencyTTL(f *fixture) {
	ch, long := f.channel(), f.channel()
	short := broker.PublishOptions{IdempotencyKey: "key", IdempotencyTTL: f.units(1)}
	standard := broker.PublishOptions{IdempotencyKey: "key"}
	f.publish(ch, "1", short)
	f.publish(long, "1", standard)
	f.wantEvents(ch, 1)
	f.wantEvents(long, 1)
	f.wantSuppressed(ch, &channel.Publication{Data: []byte("2")}, short, broker.PublishResult{Suppressed: broker.SuppressIdempotency})
	f.advance(2)
	f.equal("after the end", f.publish(ch, "3", short), broker.PublishResult{})
	f.wantEvents(ch, 2)
	f.wantSuppressed(ch, &channel.Publication{Data: []byte("4")}, short, broker.PublishResult{Suppressed: broker.SuppressIdempotency})
	f.wantSuppressed(long, &channel.Publication{Data: []byte("2")}, standard, broker.PublishResult{Suppressed: broker.SuppressIdempotency})
	if f.caps.Virtual {
		f.caps.Advance(f, 301*time.Second-f.units(2))
		f.equal("after 300 s", f.publish(long, "3", standard), broker.PublishResult{})
	}
}

func testIdempotencyConcurrent(f *fixture) {
	ch := f.channel()
	opts := f.kept(100)
	opts.IdempotencyKey = "key"
	const n = 16
	results := make([]broker.PublishResult, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			var err error
			results[i], err = f.broker.Publish(f.ctx, ch, &channel.Publication{Data: []byte("1")}, opts)
			f.mustGo(err)
		})
	}
	group.Wait()
	executed := 0
	for _, r := range results {
		f.equal("position", r.Position, results[0].Position)
		if r.Suppressed == "" {
			executed++
		}
	}
	f.equal("executed", executed, 1)
	f.wantEvents(ch, 1)
	f.wantQuiet(ch, 1)
}

func testVersions(f *fixture) {
	ch := f.channel()
	var top channel.StreamPosition
	for i, step := range []struct {
		version    uint64
		epoch      string
		suppressed bool
	}{
		{5, "", false},
		{5, "", true},
		{4, "", true},
		{6, "", false},
		{0, "", false}, // without version: executed, and the stored one stays
		{6, "", true},
		{7, "a", false}, // another version epoch
		{7, "a", true},
		{6, "a", true},
		{7, "", true}, // an empty one is compared with any
		{3, "b", false},
		{3, "b", true},
		{3, "a", false},
		{4, "", false}, // stores the empty epoch
		{1, "a", false},
		{1 << 50, "a", false},
		{1<<50 - 1, "a", true},
	} {
		opts := f.kept(100)
		opts.VersionEpoch = step.epoch
		result := f.publishPub(ch, &channel.Publication{Data: []byte("1"), Version: step.version}, opts)
		want := broker.PublishResult{Position: channel.StreamPosition{Offset: top.Offset + 1, Epoch: result.Position.Epoch}}
		if step.suppressed {
			want = broker.PublishResult{Position: top, Suppressed: broker.SuppressVersion}
		}
		f.equal(fmt.Sprintf("step %d: version %d epoch %q", i, step.version, step.epoch), result, want)
		top = result.Position
	}
	f.wantEvents(ch, int(top.Offset))
	f.wantQuiet(ch, int(top.Offset))
	f.equal("history", len(f.all(ch).Publications), int(top.Offset))
}

func testVersionsNeedHistory(f *fixture) {
	ch := f.channel()
	for range 2 {
		f.equal("result", f.publishPub(ch, &channel.Publication{Data: []byte("1"), Version: 5}, broker.PublishOptions{}), broker.PublishResult{})
	}
	f.wantEvents(ch, 2)
}

func testVersionsOutliveHistory(f *fixture) {
	ch := f.channel()
	opts := f.ttl(1, 6)
	pub := func() *channel.Publication { return &channel.Publication{Data: []byte("1"), Version: 5} }
	top := f.publishPub(ch, pub(), opts).Position
	f.wantEvents(ch, 1)
	f.must(f.broker.RemoveHistory(f.ctx, ch))
	f.wantSuppressed(ch, pub(), opts, broker.PublishResult{Position: top, Suppressed: broker.SuppressVersion})
	f.advance(2)
	f.wantSuppressed(ch, pub(), opts, broker.PublishResult{Position: top, Suppressed: broker.SuppressVersion})
	f.advance(7)
	f.equal("in a new stream", f.publishPub(ch, pub(), opts).Suppressed, broker.SuppressReason(""))
}

// testVersionsAndIdempotency: the key counts before the version, and only an executed publish takes the key.
func testVersionsAndIdempotency(f *fixture) {
	ch := f.channel()
	opts := f.kept(10)
	pub := func(version uint64) *channel.Publication {
		return &channel.Publication{Data: []byte("1"), Version: version}
	}
	f.publishPub(ch, pub(5), opts)
	opts.IdempotencyKey = "a"
	f.equal("old version", f.publishPub(ch, pub(5), opts).Suppressed, broker.SuppressVersion)
	executed := f.publishPub(ch, pub(6), opts)
	f.equal("new version", executed.Suppressed, broker.SuppressReason(""))
	executed.Suppressed = broker.SuppressIdempotency
	f.equal("same key", f.publishPub(ch, pub(7), opts), executed)
	opts.IdempotencyKey = "b"
	f.equal("version after a suppressed one", f.publishPub(ch, pub(7), opts).Suppressed, broker.SuppressReason(""))
	f.wantEvents(ch, 3)
}

func testDelta(f *fixture) {
	ch := f.channel()
	opts := f.kept(1) // one publication is enough
	opts.Delta = true
	for _, data := range []string{"1", "2", "3"} {
		f.publish(ch, data, opts)
	}
	events := f.wantEvents(ch, 3)
	for i, e := range events {
		f.equal("delta", e.Delta, true)
		if i == 0 {
			f.equal("base of the first", e.Prev == nil, true)
			continue
		}
		f.equal("base", e.Prev, events[i-1].Pub)
	}
}

func testDeltaWithoutBase(f *fixture) {
	ch := f.channel()
	delta := f.ttl(1, 100)
	delta.Delta = true
	f.publish(ch, "1", f.ttl(1, 100))
	f.publish(ch, "2", f.ttl(1, 100)) // without Delta
	f.must(f.broker.RemoveHistory(f.ctx, ch))
	f.publish(ch, "3", delta) // removed
	f.advance(2)
	f.publish(ch, "4", delta) // expired
	for _, e := range f.wantEvents(ch, 4) {
		f.equal("base", e.Prev == nil, true)
	}
	f.publish(ch, "5", delta) // finally
	f.equal("base", string(f.wantEvents(ch, 5)[4].Prev.Data), "4")
}
