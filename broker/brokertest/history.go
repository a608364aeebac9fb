package brokertest

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest/follower"
	"github.com/gyrohq/gyro/channel"
)

// noEpoch is the epoch that clients use for a position they know to be invalid.
const noEpoch = "_"

func testHistoryNeedsSizeAndTTL(f *fixture) {
	ch := f.channel()
	for _, opts := range []broker.PublishOptions{
		{HistorySize: 10},
		{HistoryTTL: 10 * f.caps.Unit},
		{HistorySize: -1, HistoryTTL: 10 * f.caps.Unit},
		{HistorySize: 10, HistoryTTL: -1},
	} {
		f.equal("result", f.publish(ch, "1", opts), broker.PublishResult{})
	}
	for _, e := range f.wantEvents(ch, 4) {
		f.equal("place", channel.StreamPosition{Offset: e.Pub.Offset, Epoch: e.Epoch}, channel.StreamPosition{})
	}
	h := f.all(ch)
	f.equal("publications", len(h.Publications), 0)
	f.equal("top", h.Top.Offset, uint64(0))
}

func testOffsets(f *fixture) {
	ch := f.channel()
	var epoch string
	for i := range uint64(5) {
		position := f.publish(ch, fmt.Sprint(i), f.kept(3)).Position
		if i == 0 {
			epoch = position.Epoch
		}
		f.equal("position", position, channel.StreamPosition{Offset: i + 1, Epoch: epoch})
	}
	if epoch == "" || epoch == noEpoch {
		f.Errorf("epoch %q", epoch)
	}
	for i, e := range f.wantEvents(ch, 5) {
		f.equal("offset", e.Pub.Offset, uint64(i+1))
		f.equal("epoch", e.Epoch, epoch)
	}
	other := f.publish(f.name(), "1", f.kept(3)).Position
	if other.Epoch == epoch {
		f.Errorf("two streams have the epoch %q", epoch)
	}
}

func testReadCreatesStream(f *fixture) {
	ch := f.channel()
	h := f.history(ch, broker.HistoryFilter{})
	if h.Top.Epoch == "" || h.Top.Epoch == noEpoch || h.Top.Offset != 0 {
		f.Errorf("top of an unused channel: %+v", h.Top)
	}
	f.equal("publications", len(h.Publications), 0)
	f.equal("second read", f.all(ch), h)
	f.equal("publish", f.publish(ch, "1", f.kept(1)).Position, channel.StreamPosition{Offset: 1, Epoch: h.Top.Epoch})
}

type historyRow struct {
	since   int64 // -1: none
	reverse bool
	limit   int
	want    []uint64
}

// testRows reads a stream with the offsets 4 to 7.
func testRows(f *fixture, rows []historyRow) {
	ch := f.channel()
	var top channel.StreamPosition
	for i := range 7 {
		top = f.publish(ch, fmt.Sprint(i+1), f.kept(4)).Position
	}
	for _, row := range rows {
		filter := broker.HistoryFilter{Limit: row.limit, Reverse: row.reverse}
		if row.since >= 0 {
			filter.Since = &channel.StreamPosition{Offset: uint64(row.since), Epoch: "the broker does not look at this"}
		}
		h := f.history(ch, filter)
		what := fmt.Sprintf("since %d, reverse %v, limit %d", row.since, row.reverse, row.limit)
		f.equal(what, offsets(h.Publications), row.want)
		f.equal(what+": top", h.Top, top)
		for _, pub := range h.Publications {
			f.equal(what+": data", string(pub.Data), fmt.Sprint(pub.Offset))
		}
	}
}

func testHistoryRows(f *fixture) {
	all := []uint64{4, 5, 6, 7}
	testRows(f, []historyRow{
		{-1, false, 0, nil},
		{-1, false, 2, []uint64{4, 5}},
		{-1, false, 4, all},
		{-1, false, 100, all},
		{-1, false, -1, all},
		{-1, false, -100, all},
		{5, false, 0, nil},
		{5, false, -1, []uint64{6, 7}},
		{5, false, 1, []uint64{6}},
		{6, false, 5, []uint64{7}},
		{3, false, -1, all},
		{2, false, -1, all}, // offset 3 was trimmed: no gap error
		{0, false, -1, all},
		{0, false, 2, []uint64{4, 5}},
		{7, false, -1, nil},
		{7, false, 1, nil},
		{8, false, -1, nil},
		{1000, false, 10, nil},
		{math.MaxInt64, false, -1, nil},
	})
}

func testHistoryRowsReverse(f *fixture) {
	all := []uint64{7, 6, 5, 4}
	testRows(f, []historyRow{
		{-1, true, 0, nil},
		{-1, true, 2, []uint64{7, 6}},
		{-1, true, 100, all},
		{-1, true, -1, all},
		{8, true, -1, all},
		{7, true, -1, []uint64{6, 5, 4}},
		{6, true, -1, []uint64{5, 4}},
		{6, true, 1, []uint64{5}},
		{6, true, 0, nil},
		{5, true, 10, []uint64{4}},
		{4, true, -1, nil},
		{3, true, -1, nil},
		{1, true, 5, nil},
	})
}

func testHistoryFields(f *fixture) {
	ch := f.channel()
	f.publishPub(ch, richPublication(), f.kept(2))
	live := f.wantEvents(ch, 1)[0].Pub
	stored := f.all(ch).Publications
	if len(stored) != 1 {
		f.Fatalf("%d publications, want 1", len(stored))
	}
	f.equal("stored", stored[0], richPublication(), sameButBrokerFields)
	f.equal("offset", stored[0].Offset, uint64(1))
	f.equal("time", stored[0].Time, live.Time)
}

// testHistoryMixed interleaves publications that are not kept.
func testHistoryMixed(f *fixture) {
	ch := f.channel()
	f.publish(ch, "kept", f.kept(5))
	f.publish(ch, "passing", broker.PublishOptions{})
	f.publish(ch, "kept", f.kept(5))
	var got []uint64
	for _, e := range f.wantEvents(ch, 3) {
		got = append(got, e.Pub.Offset)
	}
	f.equal("offsets", got, []uint64{1, 0, 2})
	f.equal("history", offsets(f.all(ch).Publications), []uint64{1, 2})
}

func testHistorySizeChanges(f *fixture) {
	ch := f.channel()
	for _, step := range []struct {
		size int
		want []uint64
	}{
		{3, []uint64{1}},
		{3, []uint64{1, 2}},
		{3, []uint64{1, 2, 3}},
		{3, []uint64{2, 3, 4}},
		{5, []uint64{2, 3, 4, 5}},
		{5, []uint64{2, 3, 4, 5, 6}},
		{5, []uint64{3, 4, 5, 6, 7}},
		{2, []uint64{7, 8}},
		{1, []uint64{9}},
		{3, []uint64{9, 10}},
	} {
		f.publish(ch, "1", f.kept(step.size))
		f.equal("history", offsets(f.all(ch).Publications), step.want)
	}
}

func (f *fixture) ttl(history, meta int) broker.PublishOptions {
	opts := f.kept(10)
	opts.HistoryTTL, opts.HistoryMetaTTL = f.units(history), f.units(meta)
	return opts
}

func testHistoryTTL(f *fixture) {
	ch := f.channel()
	f.publish(ch, "1", f.ttl(1, 100))
	top := f.publish(ch, "2", f.ttl(1, 100)).Position
	f.advance(2)
	f.equal("after the end", f.all(ch), broker.History{Top: top})
	f.equal("next", f.publish(ch, "3", f.ttl(1, 100)).Position, channel.StreamPosition{Offset: 3, Epoch: top.Epoch})
	f.equal("history", offsets(f.all(ch).Publications), []uint64{3})
}

// testHistoryTTLRenewed: a publish renews the life of earlier publications, and a read does not.
func testHistoryTTLRenewed(f *fixture) {
	ch := f.channel()
	for i := range 3 {
		f.publish(ch, fmt.Sprint(i), f.ttl(3, 100))
		f.advance(1.5)
		f.equal("history", len(f.all(ch).Publications), i+1)
	}
	f.advance(2.5)
	f.equal("history", len(f.all(ch).Publications), 0)
}

func testMetaTTL(f *fixture) {
	ch := f.channel()
	f.publish(ch, "1", f.ttl(1, 2))
	old := f.publish(ch, "2", f.ttl(1, 2)).Position
	f.advance(3)
	h := f.history(ch, broker.HistoryFilter{Limit: -1, MetaTTL: f.units(2)})
	if h.Top.Offset != 0 || h.Top.Epoch == "" || h.Top.Epoch == old.Epoch || len(h.Publications) > 0 {
		f.Errorf("the stream after its end: %+v, before: %+v", h, old)
	}
	f.advance(3)
	// The second stream had no publications, so the third may have its epoch.
	position := f.publish(ch, "1", f.ttl(1, 2)).Position
	if position.Offset != 1 || position.Epoch == old.Epoch {
		f.Errorf("publish after two ends: %+v, before: %+v and %+v", position, h.Top, old)
	}
	events := f.wantEvents(ch, 3)
	f.equal("epoch of the event", events[2].Epoch, position.Epoch)
}

func testMetaTTLRenewed(f *fixture) {
	ch := f.channel()
	top := f.publish(ch, "1", f.ttl(1, 3)).Position
	f.advance(1.5)
	f.equal("read", f.history(ch, broker.HistoryFilter{MetaTTL: f.units(3)}).Top, top)
	f.advance(1.5)
	top.Offset = 2
	f.equal("publish", f.publish(ch, "1", f.ttl(1, 3)).Position, top)
	f.advance(1.5)
	f.equal("read", f.history(ch, broker.HistoryFilter{MetaTTL: f.units(100)}).Top, top)
	f.advance(5)
	f.equal("read", f.history(ch, broker.HistoryFilter{MetaTTL: f.units(3)}).Top, top)
}

func testRemoveHistory(f *fixture) {
	ch := f.channel()
	f.must(f.broker.RemoveHistory(f.ctx, ch))
	f.publish(ch, "1", f.kept(10))
	top := f.publish(ch, "2", f.kept(10)).Position
	f.must(f.broker.RemoveHistory(f.ctx, ch))
	f.equal("after removal", f.all(ch), broker.History{Top: top})
	f.must(f.broker.RemoveHistory(f.ctx, ch))
	top.Offset++
	f.equal("publish", f.publish(ch, "3", f.kept(10)).Position, top)
	h := f.all(ch)
	f.equal("history", offsets(h.Publications), []uint64{3})
	f.equal("top", h.Top, top)
}

func testResultsBelongToCaller(f *fixture) {
	ch := f.channel()
	for range 3 {
		f.publish(ch, "1", f.kept(3))
	}
	early := f.all(ch).Publications
	for range 3 {
		f.publish(ch, "1", f.kept(3))
	}
	f.equal("kept result", offsets(early), []uint64{1, 2, 3})
	changed := f.all(ch).Publications
	clear(changed)
	_ = append(changed[:0], early...)
	f.equal("history", offsets(f.all(ch).Publications), []uint64{4, 5, 6})
}

// testOrderWithHistory has many publishers: every offset is given once, and events arrive in the order of offsets.
func testOrderWithHistory(f *fixture) {
	const publishers, each = 8, 50
	names := []string{f.channel(), f.channel()}
	var group sync.WaitGroup
	for range publishers {
		group.Go(func() {
			for i := range each {
				for _, ch := range names {
					_, err := f.broker.Publish(f.ctx, ch, &channel.Publication{Data: []byte(fmt.Sprint(i))}, f.kept(publishers*each))
					f.mustGo(err)
				}
			}
		})
	}
	group.Wait()
	for _, ch := range names {
		h := f.all(ch)
		f.equal("top", h.Top.Offset, uint64(publishers*each))
		f.equal("stored", len(h.Publications), publishers*each)
		for i, e := range f.wantEvents(ch, publishers*each) {
			f.equal("offset", e.Pub.Offset, uint64(i+1))
			f.equal("stored", h.Publications[i], e.Pub)
		}
	}
}

// testNothingLostOnSubscribe subscribes, then reads, while others publish. The read and the events must join up.
func testNothingLostOnSubscribe(f *fixture) {
	const n = 300
	ch := f.name()
	half := make(chan struct{})
	var publisher sync.WaitGroup
	publisher.Go(func() {
		for i := range n {
			_, err := f.broker.Publish(f.ctx, ch, &channel.Publication{Data: []byte("1")}, f.kept(n))
			f.mustGo(err)
			if i == n/2 {
				close(half)
			}
		}
	})
	<-half
	f.subscribe(ch)
	h := f.all(ch)
	publisher.Wait()
	f.publish(ch, "last", f.kept(n))

	f.wait(ch, n+1-int(h.Top.Offset))
	next := h.Top.Offset + 1
	for _, e := range f.eventsUpTo(ch, n+1) {
		if e.Pub.Offset < next {
			continue // known from the read
		}
		f.equal("offset", e.Pub.Offset, next)
		next++
	}
	f.equal("end", next, uint64(n+2))
}

func (f *fixture) eventsUpTo(ch string, offset uint64) []event {
	f.Helper()
	for n := 1; ; n++ {
		events := f.wait(ch, n)
		n = len(events)
		if events[n-1].Pub.Offset == offset {
			return events
		}
	}
}

func testPositions(f *fixture) {
	var names []string
	var want []broker.PositionResult
	for i := range 1500 {
		ch := fmt.Sprintf("%s_%d", f.name(), i)
		names = append(names, ch)
		var top channel.StreamPosition
		switch i % 100 {
		case 0:
			top = f.publish(ch, "1", f.kept(2)).Position
		case 1:
			f.publish(ch, "1", f.kept(2))
			top = f.publish(ch, "2", f.kept(2)).Position
		case 2:
			top = f.all(ch).Top
		}
		want = append(want, broker.PositionResult{Top: top})
	}
	got := f.traits.Positions(f.ctx, names, 0)
	f.equal("number of positions", len(got), len(names))
	epochs := map[string]bool{}
	for i := range got {
		if want[i].Top == (channel.StreamPosition{}) { // the read made the stream
			want[i].Top.Epoch = got[i].Top.Epoch
		}
		epochs[got[i].Top.Epoch] = true
	}
	f.equal("positions", got, want)
	f.equal("number of epochs", len(epochs), len(names))
	f.equal("positions again", f.traits.Positions(f.ctx, names, 0), got)
	f.equal("read", f.history(names[5], broker.HistoryFilter{}).Top, got[5].Top)
	f.equal("no positions", len(f.traits.Positions(f.ctx, nil, 0)), 0)

	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	got = f.traits.Positions(ctx, names[:2], 0)
	if got[0].Err == nil || got[1].Err == nil {
		f.Error("no error with a cancelled context")
	}
}

func testPositionsRenewed(f *fixture) {
	names := []string{f.name()}
	f.publish(names[0], "1", f.ttl(1, 3))
	renewed := f.traits.Positions(f.ctx, names, f.units(100))
	f.clock.Check()
	f.equal("top", renewed[0].Top.Offset, uint64(1))
	f.advance(5)
	f.equal("renewed", f.traits.Positions(f.ctx, names, 0)[0].Top.Offset, uint64(1))
}

// testFollowed checks that without faults nothing is missing. Tests of engines do the same with faults.
func testFollowed(f *fixture) {
	client := follower.New(f.name())
	f.events.Follower.Store(client)
	client.Start(f, f.broker)
	opts := f.kept(3)
	var accepted []int
	for n := 1; n <= 300; n++ {
		opts.Delta = n > 100
		_, err := f.broker.Publish(f.ctx, client.Channel(), follower.Number(n), opts)
		f.must(err)
		accepted = append(accepted, n)
		if n%100 == 0 {
			f.must(f.broker.Subscribe(f.ctx, client.Channel()))
		}
	}
	if missing := client.Verify(f, accepted); missing > 0 || client.Told() > 0 {
		f.Errorf("%d are missing, and the subscriber was told %d times", missing, client.Told())
	}
}
