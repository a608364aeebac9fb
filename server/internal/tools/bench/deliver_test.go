package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/server/internal/tools/wire"
)

// BenchmarkDeliver is what a delivered message costs the client, without the
// kernel: a thousand subscribers, frames of one and of sixteen messages.
func BenchmarkDeliver(b *testing.B) {
	for _, e := range []protocol.Encoding{protocol.JSON, protocol.Protobuf} {
		for _, together := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d", e, together), func(b *testing.B) {
				r, frames := delivering(b, e, together)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					c := r.subscribers[i%1000]
					if err := c.receive(nil, frames[i/1000%len(frames)], nil); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*together), "ns/message")
			})
		}
	}
}

// TestDeliverAllocates nothing for what another subscriber had before.
func TestDeliverAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	var r *run
	var frames [][]byte
	for r == nil || !kept(r, frames[0]) {
		r, frames = delivering(t, protocol.JSON, 16)
		for range 2 { // the ledger's track, too
			if err := r.subscribers[0].receive(nil, frames[0], nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := r.subscribers[1].receive(nil, frames[0], nil); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _ = r.subscribers[1].receive(nil, frames[0], nil) }); n > 0 {
		t.Errorf("%.0f allocations", n)
	}
}

// kept tells whether all messages of a frame are remembered. One in forty times two of them have the same place, by
// chance, so one replaces the other.
func kept(r *run, frame []byte) bool {
	for len(frame) > 0 {
		message := wire.FirstMessage(r.codec.Encoding(), frame)
		if r.memo.Find(message) == nil {
			return false
		}
		frame = frame[len(message):]
	}
	return true
}

// delivering prepares a run in which eight frames were published.
func delivering(tb testing.TB, e protocol.Encoding, together int) (*run, [][]byte) {
	target := testTarget("", e)
	r, err := newRun(context.Background(), &target, 1, 1000, 0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.close)
	p := r.newProducer(together, 0)
	frames := make([][]byte, 8)
	for i := range frames {
		for j, it := range p.next(together) {
			if j > 0 && e == protocol.JSON {
				frames[i] = append(frames[i], '\n')
			}
			reply := &protocol.Reply{Push: &protocol.Push{Channel: it.channel, Pub: &protocol.Publication{Data: it.payload, Offset: 1}}}
			if frames[i], err = codec.For(e).AppendReply(frames[i], reply); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return r, frames
}
