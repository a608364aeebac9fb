package hub_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/websocket"
)

// sink takes frames of a framer.
type sink struct {
	membership hub.Membership
	framer     transport.Framer
	bytes      int
}

func (s *sink) Membership() *hub.Membership { return &s.membership }
func (s *sink) DeliverAll(*hub.Batch) bool  { return false }
func (s *sink) Deliver(d *hub.Delivery) {
	frame, err := d.Frame(s.framer, 0)
	if err != nil {
		panic(err)
	}
	s.bytes += len(frame)
}

// price is the payload of a publication, like many others.
func price(n int) []byte {
	return fmt.Appendf(nil, `{"symbol":"EURUSD","bid":1.0%04d,"ask":1.0%04d,"exchange":"XETRA","currency":"EUR"}`, n*7919%10000, n*104729%10000)
}

// BenchmarkDictionary is a publication for 1,000 subscribers, with a dictionary of 4 KiB and without. It is
// encoded, framed and compressed once; the time to write the frames is not in it.
func BenchmarkDictionary(b *testing.B) {
	var text []byte
	for n := 1; len(text) < 4<<10; n++ {
		text = fmt.Appendf(text, `{"push":{"channel":"prices:EURUSD","pub":{"data":%s,"offset":%d}}}`, price(n), 1234567+n)
	}
	d, err := websocket.NewDictionary(protocol.JSON, "", false, text[:4<<10])
	if err != nil {
		b.Fatal(err)
	}
	for name, framer := range map[string]transport.Framer{"without": &envelope{encoding: protocol.JSON, dashes: 4}, "with": d.Framer()} {
		b.Run(name, func(b *testing.B) {
			arena := new(sendqueue.Arena)
			h := hub.New(arena)
			subs := make([]sink, 1000)
			for i := range subs {
				subs[i].framer = framer
				h.Add("prices:EURUSD", &subs[i])
			}
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				n++
				h.Publish(&hub.Message{Channel: "prices:EURUSD", Pub: &channel.Publication{Data: price(n), Offset: uint64(2000000 + n), Checked: true}})
				h.Deliver(math.MaxInt)
				h.Forget()
				arena.Reset()
			}
			b.ReportMetric(float64(subs[0].bytes)/float64(n), "bytes/message")
		})
	}
}
