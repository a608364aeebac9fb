//go:build !race

package redis

import (
	"testing"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/readmap"
	"github.com/gyrohq/gyro/broker/redis/internal/commands"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/broker/redis/internal/losses"
	"github.com/gyrohq/gyro/broker/redis/internal/pubsub"
	"github.com/gyrohq/gyro/channel"
)

// nobody is an event handler that keeps what it was given last.
type nobody struct{ last broker.PublicationEvent }

func (n *nobody) HandlePublication(_ string, e broker.PublicationEvent) { n.last = e }
func (n *nobody) HandleJoin(string, *channel.ClientInfo)                {}
func (n *nobody) HandleLeave(string, *channel.ClientInfo)               {}
func (n *nobody) HandleLoss(func(string) bool)                          {}

// received makes a receiver and a message for it.
func received() (r *receiver, name, message []byte) {
	handler := &nobody{}
	r = &receiver{broker: &Broker{handler: handler}}
	r.channels.Set(readmap.Hash("c.client.ch"), "c.client.ch", losses.NewStream("ch"))
	pub := format.AppendPublication(nil, &channel.Publication{Data: make([]byte, 128), Time: 1795285627821}, false)
	return r, []byte("c.client.ch"), append([]byte("__p1:12:abcdefgh__"), pub...)
}

// TestReceiveAllocations: a received publication costs no memory where one was received
// before. The reader of package pubsub has its own budget.
func TestReceiveAllocations(t *testing.T) {
	r, name, message := received()
	memory := new(pubsub.Chunk)
	receive := func() {
		memory.Used = 0
		r.message(name, message, memory)
	}
	if allocs := testing.AllocsPerRun(1000, receive); allocs > 0 {
		t.Errorf("%v allocations per publication", allocs)
	}
}

// TestBatchAllocations holds the price of preparing a batch.
func TestBatchAllocations(t *testing.T) {
	b := &Broker{engine: &Engine{}, kinds: &commands.Streams}
	pub := &channel.Publication{Data: make([]byte, 128), Time: 1}
	batch := make([]broker.BatchItem, 1000)
	items := make([]shareItem, len(batch))
	for i := range batch {
		batch[i] = broker.BatchItem{Channel: "channel", Pub: pub, Options: broker.PublishOptions{HistorySize: 10, HistoryTTL: 1e9}}
		items[i] = shareItem{index: int32(i), hash: format.Hash("channel")}
	}
	r := share{broker: b, shard: &shard{names: format.Names{Prefix: "gyro"}}, batch: batch, items: items}
	r.strings = commands.NewStrings(commands.MaxChunk)
	r.prepare(items)
	if allocs := testing.AllocsPerRun(100, func() { r.prepare(items) }); allocs > 10 {
		t.Errorf("%v allocations per 1,000 items, at most 10", allocs)
	}
}

func BenchmarkDeliver(b *testing.B) {
	r, name, message := received()
	memory := new(pubsub.Chunk)
	b.ReportAllocs()
	for b.Loop() {
		memory.Used = 0
		r.message(name, message, memory)
	}
}
