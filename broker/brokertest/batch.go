package brokertest

import (
	"context"
	"fmt"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// testBatch checks that a batch does the same as its items published one by one.
func testBatch(f *fixture) {
	one, two, deaf := f.channel(), f.channel(), f.name()
	shared := &channel.Publication{Data: []byte("shared")}
	var batch []broker.BatchItem
	for i := range 300 {
		batch = append(batch,
			broker.BatchItem{Channel: one, Pub: shared},
			broker.BatchItem{Channel: deaf, Pub: shared},
			broker.BatchItem{Channel: two, Pub: shared},
			broker.BatchItem{Channel: two, Pub: &channel.Publication{Data: fmt.Append(nil, i)}})
	}
	f.traits.Batch(f.ctx, batch)
	for i := range batch {
		if batch[i].Err != nil || batch[i].Result != (broker.PublishResult{}) {
			f.Fatalf("item %d: %+v, %v", i, batch[i].Result, batch[i].Err)
		}
	}
	for _, e := range f.wantEvents(one, 300) {
		f.equal("shared data", string(e.Pub.Data), "shared")
	}
	for i, e := range f.wantEvents(two, 600) {
		want := "shared"
		if i%2 == 1 {
			want = fmt.Sprint(i / 2)
		}
		f.equal("data", string(e.Pub.Data), want)
		f.equal("offset", e.Pub.Offset, uint64(0))
	}
	f.subscribe(deaf)
	f.publish(deaf, "marker", broker.PublishOptions{})
	f.begins(deaf, "marker", "shared")
}

// testBatchHistory also has a batch whose context has ended.
func testBatchHistory(f *fixture) {
	one, two := f.channel(), f.channel()
	stored := f.kept(10)
	var batch []broker.BatchItem
	for i := range 6 {
		for _, ch := range []string{one, two} {
			batch = append(batch, broker.BatchItem{Channel: ch, Pub: &channel.Publication{Data: fmt.Append(nil, i)}, Options: stored})
		}
	}
	f.traits.Batch(f.ctx, batch)
	for i := range batch {
		if err := batch[i].Err; err != nil {
			f.Fatalf("item %d: %v", i, err)
		}
		f.equal("offset", batch[i].Result.Position.Offset, uint64(i/2+1))
		f.equal("epoch", batch[i].Result.Position.Epoch, batch[i%2].Result.Position.Epoch)
	}
	for i, e := range f.wantEvents(two, 6) {
		f.equal("offset of event", e.Pub.Offset, uint64(i+1))
	}
	h, err := f.broker.History(f.ctx, one, broker.HistoryFilter{Limit: -1})
	if err != nil || len(h.Publications) != 6 || h.Top != batch[10].Result.Position {
		f.Fatalf("history of %d, %+v, %v", len(h.Publications), h.Top, err)
	}

	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	f.traits.Batch(ctx, batch[:2])
	if batch[0].Err == nil || batch[1].Err == nil {
		f.Errorf("a batch of a context that has ended: %v, %v", batch[0].Err, batch[1].Err)
	}
}

// testBatchSuppression checks that an item suppresses later items of its batch.
func testBatchSuppression(f *fixture) {
	ch := f.channel()
	once := broker.PublishOptions{IdempotencyKey: "key"}
	batch := make([]broker.BatchItem, 3)
	for i := range batch {
		batch[i] = broker.BatchItem{Channel: ch, Pub: &channel.Publication{Data: fmt.Append(nil, i)}, Options: once}
	}
	batch[2].Options.IdempotencyKey = "other"
	f.traits.Batch(f.ctx, batch)
	for i, want := range []broker.SuppressReason{"", broker.SuppressIdempotency, ""} {
		if batch[i].Err != nil || batch[i].Result.Suppressed != want {
			f.Errorf("item %d: %+v, %v", i, batch[i].Result, batch[i].Err)
		}
	}
	f.wantEvents(ch, 2)
}
