package nats

import (
	"testing"

	natsio "github.com/nats-io/nats.go"

	"github.com/gyrohq/gyro/channel"
)

func TestReceiveAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	b := newBroker(t, Config{})
	b.handler = ignore{}
	m := &natsio.Msg{
		Subject: "gyro.client.news", Sub: &natsio.Subscription{Subject: "gyro.client.news"},
		Data: appendPush(nil, "news", message{pub: &channel.Publication{Data: payload, Time: 1}}),
	}
	if n := testing.AllocsPerRun(1000, func() { b.deliver("news", m) }); n > 2 {
		t.Errorf("%v allocations to decode and deliver a publication", n)
	}
	l := b.receiver.workers[0]
	if n := testing.AllocsPerRun(1000, func() {
		b.receiver.take(m)
		for _, l := range b.receiver.workers {
			l.flush()
			l.queue = reset(l.queue)
		}
	}); n > 0 {
		t.Errorf("%v allocations on the way through the intake", n)
	}
	_ = l
}

func TestEncodeAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	buf := make([]byte, 0, 4096)
	pub := &channel.Publication{Data: payload, Time: 1, Info: &channel.ClientInfo{Client: "c"}}
	if n := testing.AllocsPerRun(1000, func() { buf = appendPush(buf[:0], "news", message{pub: pub}) }); n > 0 {
		t.Errorf("%v allocations to encode a publication", n)
	}
}
