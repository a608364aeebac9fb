package nats

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	natsio "github.com/nats-io/nats.go"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

var payload = []byte(`{"text":"some hundred bytes of payload are what a chat message has, more or less, with its keys"}`)

// BenchmarkPublish is the round trip; some publishers share it.
func BenchmarkPublish(b *testing.B) {
	for _, publishers := range []int{1, 8, 64, 512} {
		b.Run(fmt.Sprint("publishers=", publishers), func(b *testing.B) {
			br := run(b, Config{URL: startServer(b, nil).ClientURL()}, ignore{})
			b.ReportAllocs()
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var wg sync.WaitGroup
			for p := range publishers {
				wg.Go(func() {
					ch := fmt.Sprint("news:", p)
					for left.Add(-1) >= 0 {
						if _, err := br.Publish(context.Background(), ch, &channel.Publication{Data: payload}, broker.PublishOptions{}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

func BenchmarkPublishBatch(b *testing.B) {
	br := run(b, Config{URL: startServer(b, nil).ClientURL()}, ignore{})
	b.ReportAllocs()
	batch := make([]broker.BatchItem, 256)
	for n := 0; n < b.N; n += len(batch) {
		for i := range batch {
			batch[i] = broker.BatchItem{Channel: "news", Pub: &channel.Publication{Data: payload}}
		}
		br.PublishBatch(context.Background(), batch)
		if batch[0].Err != nil {
			b.Fatal(batch[0].Err)
		}
	}
}

// BenchmarkReceive is a publication from the socket to the handler, at its fastest.
func BenchmarkReceive(b *testing.B) {
	url := startServer(b, nil).ClientURL()
	done := make(chan struct{}, 1)
	var left atomic.Int64
	sender := run(b, Config{URL: url}, ignore{})
	receiver := run(b, Config{URL: url}, counter(func() {
		if left.Add(-1) == 0 {
			done <- struct{}{}
		}
	}))
	if err := receiver.Subscribe(context.Background(), "news"); err != nil {
		b.Fatal(err)
	}
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; {
		batch := make([]broker.BatchItem, min(256, b.N-n))
		for i := range batch {
			batch[i] = broker.BatchItem{Channel: "news", Pub: &channel.Publication{Data: payload}}
		}
		sender.PublishBatch(context.Background(), batch)
		n += len(batch)
	}
	<-done
}

func BenchmarkSubscribe(b *testing.B) {
	br := run(b, Config{URL: startServer(b, nil).ClientURL()}, ignore{})
	b.ReportAllocs()
	names := make([]string, b.N)
	for i := range names {
		names[i] = fmt.Sprint("news:", i)
	}
	b.ResetTimer()
	if err := br.Subscribe(context.Background(), names...); err != nil {
		b.Fatal(err)
	}
}

type ignore struct{}

func (ignore) HandlePublication(string, broker.PublicationEvent) {}
func (ignore) HandleJoin(string, *channel.ClientInfo)            {}
func (ignore) HandleLeave(string, *channel.ClientInfo)           {}
func (ignore) HandleLoss(func(string) bool)                      {}

type counter func()

func (c counter) HandlePublication(string, broker.PublicationEvent) { c() }
func (counter) HandleJoin(string, *channel.ClientInfo)              {}
func (counter) HandleLeave(string, *channel.ClientInfo)             {}
func (counter) HandleLoss(func(string) bool)                        {}

// BenchmarkDeliver is the engine's part of BenchmarkReceive, without its goroutines.
func BenchmarkDeliver(b *testing.B) {
	br := newBroker(b, Config{})
	br.handler = ignore{}
	m := &natsio.Msg{
		Subject: "gyro.client.news", Sub: &natsio.Subscription{Subject: "gyro.client.news"},
		Data: appendPush(nil, "news", message{pub: &channel.Publication{Data: payload, Time: 1}}),
	}
	l := br.receiver.worker("news")
	b.ReportAllocs()
	for b.Loop() {
		br.receiver.take(m)
		l.flush()
		br.deliver(l.queue[0].ch, l.queue[0].m)
		l.queue, l.bytes = reset(l.queue), 0
	}
}
