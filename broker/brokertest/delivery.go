package brokertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest/internal/record"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
)

// richPublication has every field that a publisher sets.
func richPublication() *channel.Publication {
	return &channel.Publication{
		Data:    []byte(`{"text":"héllo"}`),
		Info:    &channel.ClientInfo{User: "u", Client: "c", ConnInfo: []byte(`{"a":1}`), ChanInfo: []byte(`{"b":2}`)},
		Tags:    map[string]string{"severity": "high", "": "empty key"},
		Version: 1 << 40,
		Key:     "key",
		Removed: true,
		Score:   -7,
	}
}

// sameButBrokerFields ignores the fields that a broker sets.
var sameButBrokerFields = cmpopts.IgnoreFields(channel.Publication{}, "Offset", "Time")

func testDelivery(f *fixture) {
	ch := f.channel()
	before := time.Now().UnixMilli()
	result := f.publishPub(ch, richPublication(), broker.PublishOptions{})
	f.equal("result", result, broker.PublishResult{})

	got := f.wantEvents(ch, 1)[0]
	want := richPublication()
	if f.caps.RealChannel {
		want.Channel = ch
	}
	f.equal("publication", got.Pub, want, sameButBrokerFields)
	f.equal("offset", got.Pub.Offset, uint64(0))
	f.equal("epoch", got.Epoch, "")
	if got.Delta || got.Prev != nil {
		f.Errorf("delta %v, prev %v without being asked for", got.Delta, got.Prev)
	}
	if now := time.Now().UnixMilli(); got.Pub.Time < before || got.Pub.Time > now {
		f.Errorf("time %d, want it between %d and %d", got.Pub.Time, before, now)
	}
}

func testDeliveryKeepsTime(f *fixture) {
	ch := f.channel()
	f.publishPub(ch, &channel.Publication{Data: []byte("1"), Time: 1234}, broker.PublishOptions{})
	f.equal("time", f.wantEvents(ch, 1)[0].Pub.Time, int64(1234))
}

func testOnlySubscribed(f *fixture) {
	first, second, other := f.name(), f.name(), f.name()
	for _, ch := range []string{first, second, other} {
		f.publish(ch, "early", broker.PublishOptions{})
	}
	f.must(f.broker.PublishJoin(f.ctx, first, &channel.ClientInfo{Client: "c"}))

	f.subscribe(first, second)
	for _, ch := range []string{first, second, other} {
		f.publish(ch, "on time", broker.PublishOptions{})
	}
	f.begins(first, "on time", "early")
	f.begins(second, "on time", "early")

	f.must(f.broker.Unsubscribe(f.ctx, first, other))
	f.publish(second, "late", broker.PublishOptions{})
	f.equal("data", string(f.wantEvents(second, 2)[1].Pub.Data), "late")
	f.ended(first)

	f.subscribe(other)
	f.publish(other, "after all", broker.PublishOptions{})
	f.begins(other, "after all", "early", "on time")
}

// begins waits for a publication, which must be the channel's first event. If the engine is Late, publications from
// before the subscription may come first.
func (f *fixture) begins(ch, data string, before ...string) {
	f.Helper()
	_, err := f.events.Wait(ch, wait.Limit, hasData(data))
	f.must(err)
	if f.caps.Late {
		f.events.Drop(ch, func(e event) bool { return e.Pub == nil || slices.Contains(before, string(e.Pub.Data)) })
	}
	if events := f.events.Of(ch); len(events) != 1 {
		f.Fatalf("%s begins with %v, want %q", ch, events, data)
	}
}

// ended checks that a channel is not delivered after Unsubscribe: a publication of that time is missing when the channel
// is subscribed again and gets a marker. It waits longer and longer.
func (f *fixture) ended(ch string) {
	f.Helper()
	pause := time.Duration(0)
	wait.Until(f, "the end of a subscription", func() bool {
		f.must(f.broker.Unsubscribe(f.ctx, ch))
		time.Sleep(pause)
		pause = 2*pause + time.Millisecond
		late := fmt.Sprint("late ", serial.Add(1))
		f.publish(ch, late, broker.PublishOptions{})
		f.subscribe(ch)
		f.publish(ch, "behind "+late, broker.PublishOptions{})
		events, err := f.events.Wait(ch, wait.Limit, hasData("behind "+late))
		f.must(err)
		return !slices.ContainsFunc(events, func(e event) bool { return e.Pub != nil && string(e.Pub.Data) == late })
	})
}

func testSubscribeTwice(f *fixture) {
	ch := f.channel()
	f.subscribe(ch, ch)
	f.subscribe()
	f.publish(ch, "1", broker.PublishOptions{})
	f.wantEvents(ch, 1)
	f.wantQuiet(ch, 1)
	f.must(f.broker.Unsubscribe(f.ctx, ch))
	f.must(f.broker.Unsubscribe(f.ctx, ch))
}

func testJoinLeave(f *fixture) {
	ch := f.channel()
	info := &channel.ClientInfo{User: "u", Client: "c", ConnInfo: []byte(`{"a":1}`), ChanInfo: []byte(`{"b":2}`)}
	f.must(f.broker.PublishJoin(f.ctx, ch, info))
	f.publish(ch, "between", broker.PublishOptions{})
	f.must(f.broker.PublishLeave(f.ctx, ch, info))
	var kinds []string
	for _, e := range f.wantEvents(ch, 3) {
		kinds = append(kinds, e.Kind)
		if e.Kind != "publication" {
			f.equal("info", e.Info, info)
		}
	}
	f.equal("order", kinds, []string{"join", "publication", "leave"})
}

// testChannelNames tries names that mean something to some backend.
func testChannelNames(f *fixture) {
	base := f.name()
	var names []string
	for _, suffix := range []string{
		"", ":", ".", ".a", ".a.b", ".*", ".>", "*", "?", "[ab]", "{tag}", "{}", "}", "#42", "$user", "&", "%s",
		" ", "\\", "'", "\"", "é", "日本", "\x01", "/", "__p1:1:a__", "key=value;",
	} {
		ch := base + suffix
		if f.caps.ValidChannel(ch) {
			names = append(names, ch)
			continue
		}
		_, err := f.broker.Publish(f.ctx, ch, &channel.Publication{Data: []byte("1")}, f.kept(1))
		if !errors.Is(err, protocol.ErrorBadRequest) {
			f.Errorf("channel %q, which is invalid: %v", ch, err)
		}
	}
	f.subscribe(names...)
	for _, ch := range names {
		f.publish(ch, ch, f.kept(1))
	}
	for _, ch := range names {
		f.equal("data", string(f.wantEvents(ch, 1)[0].Pub.Data), ch)
	}
	for _, ch := range names {
		f.wantEvents(ch, 1)
		if f.traits.History {
			f.equal("top of "+ch, f.all(ch).Top.Offset, uint64(1))
		}
	}
}

// testSubscribedWhenReturned publishes as soon as Subscribe has returned.
func testSubscribedWhenReturned(f *fixture) {
	var subscribers sync.WaitGroup
	for range 16 {
		subscribers.Go(func() {
			for range 30 {
				ch := f.name()
				f.mustGo(f.broker.Subscribe(f.ctx, ch))
				_, err := f.broker.Publish(f.ctx, ch, &channel.Publication{Data: []byte(ch)}, broker.PublishOptions{})
				f.mustGo(err)
				events, err := f.events.Wait(ch, wait.Limit, record.AtLeast(1))
				f.mustGo(err)
				if len(events) > 1 {
					f.Errorf("%d events of one publication", len(events))
				}
				f.mustGo(f.broker.Unsubscribe(f.ctx, ch))
			}
		})
	}
	subscribers.Wait()
}

func testPayloads(f *fixture) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	ch := f.channel()
	for i, data := range [][]byte{{}, {0}, every, bytes.Repeat(every, f.caps.MaxPayload/256)} {
		f.publishPub(ch, &channel.Publication{Data: data}, f.kept(1))
		if got := f.wantEvents(ch, i+1)[i].Pub.Data; !bytes.Equal(got, data) {
			f.Fatalf("%d bytes were delivered as %d other bytes", len(data), len(got))
		}
		if !f.traits.History {
			continue
		}
		if pubs := f.all(ch).Publications; len(pubs) != 1 || !bytes.Equal(pubs[0].Data, data) {
			f.Fatalf("%d bytes were stored as something else", len(data))
		}
	}
}

func testManyChannels(f *fixture) {
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("%s_%d", f.name(), i)
	}
	f.subscribe(names...)
	for round := range 2 {
		for _, ch := range names {
			f.publish(ch, fmt.Sprint(ch, round), f.kept(2))
		}
	}
	for _, ch := range names {
		for round, e := range f.wantEvents(ch, 2) {
			f.equal("data", string(e.Pub.Data), fmt.Sprint(ch, round))
		}
	}
	f.must(f.broker.Unsubscribe(f.ctx, names...))
}

func testCancelled(f *fixture) {
	ch := f.channel()
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	fails := func(what string, err error) {
		f.Helper()
		if err == nil {
			f.Errorf("%s: no error with a cancelled context", what)
		}
	}
	_, err := f.broker.Publish(ctx, ch, &channel.Publication{Data: []byte("1")}, f.kept(1))
	fails("Publish", err)
	fails("PublishJoin", f.broker.PublishJoin(ctx, ch, &channel.ClientInfo{}))
	fails("PublishLeave", f.broker.PublishLeave(ctx, ch, &channel.ClientInfo{}))
	fails("Subscribe", f.broker.Subscribe(ctx, f.name()))
	fails("Unsubscribe", f.broker.Unsubscribe(ctx, f.name()))
	if f.traits.History {
		_, err = f.broker.History(ctx, ch, broker.HistoryFilter{Limit: -1})
		fails("History", err)
		fails("RemoveHistory", f.broker.RemoveHistory(ctx, ch))
		f.equal("top", f.all(ch).Top.Offset, uint64(0))
	}
	f.wantQuiet(ch, 0)
}

// testClose checks that nothing arrives after Close, however busy the broker.
func testClose(f *fixture) {
	ch := f.channel()
	var publishers sync.WaitGroup
	for range 4 {
		publishers.Go(func() {
			for {
				if _, err := f.broker.Publish(f.ctx, ch, &channel.Publication{Data: []byte("1")}, broker.PublishOptions{}); err != nil {
					return // closed
				}
			}
		})
	}
	f.wait(ch, 10)
	f.must(f.broker.Close(f.ctx))
	delivered := len(f.events.Of(ch))
	publishers.Wait()
	if publish := f.traits.Batch; publish != nil {
		batch := []broker.BatchItem{{Channel: ch, Pub: new(channel.Publication)}}
		publish(f.ctx, batch)
		if batch[0].Err == nil {
			f.Error("no error from a batch after Close")
		}
	}
	if f.caps.Virtual {
		synctest.Wait()
	}
	if events := f.events.Of(ch); len(events) != delivered {
		f.Errorf("%d events, and %d more after Close had returned", delivered, len(events)-delivered)
	}
	f.must(f.broker.Close(f.ctx))
}

func testRunTwice(f *fixture) {
	if err := f.broker.Run(record.New()); err == nil {
		f.Error("no error from the second Run")
	}
}

func testOrderWithoutHistory(f *fixture) {
	ch := f.channel()
	const n = 200
	for i := range n {
		f.publish(ch, fmt.Sprint(i), broker.PublishOptions{})
	}
	for i, e := range f.wantEvents(ch, n) {
		f.equal("data", string(e.Pub.Data), fmt.Sprint(i))
	}
}

// testConcurrentUse calls everything at once; the race detector is the oracle.
func testConcurrentUse(f *fixture) {
	names := []string{f.channel(), f.channel(), f.name()}
	var users sync.WaitGroup
	for worker := range 8 {
		users.Go(func() {
			for i := range 50 {
				ch := names[(worker+i)%len(names)]
				opts := f.kept(1 + i%5)
				opts.Delta = true
				opts.IdempotencyKey = fmt.Sprint(i % 40)
				_, err := f.broker.Publish(f.ctx, ch, &channel.Publication{Data: []byte("1"), Version: uint64(i)}, opts)
				f.mustGo(err)
				if f.traits.History {
					_, err = f.broker.History(f.ctx, ch, broker.HistoryFilter{Limit: -1})
					f.mustGo(err)
				}
				switch i % 10 {
				case 3:
					f.mustGo(f.broker.Subscribe(f.ctx, names[2]))
				case 5:
					f.mustGo(f.broker.PublishJoin(f.ctx, ch, &channel.ClientInfo{Client: "c"}))
				case 7:
					f.mustGo(f.broker.Unsubscribe(f.ctx, names[2]))
				case 9:
					if f.traits.History {
						f.mustGo(f.broker.RemoveHistory(f.ctx, ch))
					}
				}
			}
		})
	}
	users.Wait()
}

// mustGo is must for goroutines other than the test's own.
func (f *fixture) mustGo(err error) {
	f.Helper()
	if err != nil {
		f.Error(err)
	}
}
