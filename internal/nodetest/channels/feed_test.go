package channels

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/protocol"
)

// testFeed has the publications that a test sends to it, until it is closed.
type testFeed struct {
	pubs   chan *gyro.Publication
	closed chan struct{}
	taken  chan error // of publish
	end    gyro.Unsubscribe
	closes atomic.Int32
	said   []string // what the client published
}

func newFeed() *testFeed {
	return &testFeed{pubs: make(chan *gyro.Publication), closed: make(chan struct{}), taken: make(chan error, 1), end: protocol.UnsubscribeServer}
}

func (f *testFeed) Run(publish func(*gyro.Publication) error) gyro.Unsubscribe {
	for {
		select {
		case p, ok := <-f.pubs:
			if !ok {
				return f.end
			}
			if string(p.Data) == "panic" {
				panic("of the feed")
			}
			f.taken <- publish(p)
		case <-f.closed:
			return f.end
		}
	}
}

func (f *testFeed) Close() {
	if f.closes.Add(1) == 1 {
		close(f.closed)
	}
}

func (f *testFeed) send(data string) error {
	f.pubs <- &gyro.Publication{Data: []byte(data), Tags: map[string]string{"k": "v"}, Offset: 7}
	return <-f.taken
}

// feeds are handlers that give each subscription a feed. The latest is in the channel.
func feeds() (gyro.Handlers, chan *testFeed) {
	made := make(chan *testFeed, 1)
	return gyro.Handlers{
		Connecting: nodetest.As,
		Subscribe: func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			f := newFeed()
			made <- f
			return gyro.SubscribeReply{Feed: f}, nil
		},
		Publish: func(_ context.Context, _ *gyro.Client, e gyro.PublishEvent) (gyro.PublishReply, error) {
			f, ok := e.Feed.(*testFeed)
			if !ok {
				return gyro.PublishReply{}, gyro.ErrorNotAvailable
			}
			f.said = append(f.said, string(e.Data))
			return gyro.PublishReply{Published: true}, nil
		},
	}, made
}

// The publications of a feed reach one client, beside those of the channel.
func TestFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, made := feeds()
		node := nodetest.Run(t, gyro.Config{Handlers: h})
		a, b := nodetest.Connect(t, node, "a"), nodetest.Connect(t, node, "b")
		a.Subscribe("news", "")
		mine := <-made
		b.Subscribe("news", "")
		<-made
		if err := mine.send(`{"n":1}`); err != nil {
			t.Fatal(err)
		}
		if p := a.Pub(); p == nil || string(p.Data) != `{"n":1}` || p.Offset != 0 || p.Tags["k"] != "v" {
			t.Errorf("%+v", p)
		}
		if _, err := node.Publish(t.Context(), "news", []byte(`2`), nil); err != nil {
			t.Fatal(err)
		}
		for _, c := range []interface{ Pub() *protocol.Publication }{a, b} {
			if p := c.Pub(); p == nil || string(p.Data) != "2" {
				t.Errorf("of the channel: %+v", p)
			}
		}
		if err := mine.send("no JSON"); err == nil || !strings.Contains(err.Error(), "not JSON") {
			t.Errorf("no JSON: %v", err)
		}
		a.Do(`"publish":{"channel":"news","data":3}`)
		if got, _ := a.Outcome(`"publish":{"channel":"other","data":3}`); got != "error 108" {
			t.Errorf("without a subscription: %s", got)
		}
		if fmt.Sprint(mine.said) != "[3]" {
			t.Errorf("the feed got %q", mine.said)
		}
		a.Do(`"unsubscribe":{"channel":"news"}`)
		<-mine.closed
		synctest.Wait()
		if n := mine.closes.Load(); n != 1 {
			t.Errorf("closed %d times", n)
		}
	})
}

// The end of a feed is the end of its subscription, and of no later one.
func TestFeedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, made := feeds()
		c := nodetest.Connect(t, nodetest.Run(t, gyro.Config{Handlers: h}), "a")
		for _, u := range []gyro.Unsubscribe{protocol.UnsubscribeServer, protocol.UnsubscribeInsufficientState} {
			c.Subscribe("news", "")
			f := <-made
			f.end = u
			close(f.pubs)
			if push := c.Push(); push.Unsubscribe == nil || push.Unsubscribe.Code != u.Code {
				t.Errorf("%+v", push)
			}
			<-f.closed
		}
		c.Subscribe("news", "")
		old := <-made
		c.Do(`"unsubscribe":{"channel":"news"}`)
		c.Subscribe("news", "")
		f := <-made
		<-old.closed
		synctest.Wait()
		if err := f.send("1"); err != nil || string(c.Pub().Data) != "1" {
			t.Errorf("the second subscription: %v", err)
		}
	})
}

// A feed that panics harms its client alone.
func TestFeedPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, made := feeds()
		node := nodetest.Run(t, gyro.Config{Handlers: h, Logger: slog.New(slog.DiscardHandler)})
		c, other := nodetest.Connect(t, node, "a"), nodetest.Connect(t, node, "b")
		c.Subscribe("news", "")
		f := <-made
		f.pubs <- &gyro.Publication{Data: []byte("panic")}
		nodetest.WantDisconnect(t, c, protocol.DisconnectServerError)
		<-f.closed
		other.Subscribe("news", "")
		if err := (<-made).send("1"); err != nil {
			t.Error(err)
		}
	})
}

// However subscriptions end, their feeds are closed once, and nothing is left of them.
func TestFeedsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open, running, twice atomic.Int32
		failing := errors.New("no such channel")
		h := gyro.Handlers{Connecting: nodetest.As, Subscribe: func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			if e.Channel == "refused" {
				return gyro.SubscribeReply{}, failing
			}
			open.Add(1)
			f := &countedFeed{testFeed: newFeed(), open: &open, running: &running, twice: &twice}
			r := gyro.SubscribeReply{Feed: f}
			if e.Channel == "bad" {
				r.Options.Data = json.RawMessage("{") // the node refuses it
			}
			return r, nil
		}}
		node := nodetest.Run(t, gyro.Config{Handlers: h, Logger: slog.New(slog.DiscardHandler)})
		keep := nodetest.Connect(t, node, "keep")
		keep.Subscribe("warm", "")
		synctest.Wait()
		before := runtime.NumGoroutine()
		for i := range 50 {
			c := nodetest.Connect(t, node, "u")
			for range 20 {
				c.Subscribe("a", "")
				c.Do(`"unsubscribe":{"channel":"a"}`)
			}
			c.Outcome(`"subscribe":{"channel":"refused"}`)
			c.Outcome(`"subscribe":{"channel":"bad"}`)
			c.Subscribe("b", "")
			c.Start(`"subscribe":{"channel":"c"}`)
			if i%2 == 0 {
				c.Vanish()
			} else if err := node.Users().Disconnect(t.Context(), gyro.Target{User: "u"}, nil); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if open.Load() != 1 || running.Load() != 1 {
			t.Errorf("%d feeds are open, %d run", open.Load(), running.Load())
		}
		// The runtime counts a goroutine until its thread has put it away, so some that have just ended are in the number.
		if now := runtime.NumGoroutine(); now > before+5 {
			t.Errorf("%d goroutines, %d before", now, before)
		}
		if n := twice.Load(); n > 0 {
			t.Errorf("%d feeds were closed twice", n)
		}
	})
}

type countedFeed struct {
	*testFeed
	open, running, twice *atomic.Int32
}

func (f *countedFeed) Run(publish func(*gyro.Publication) error) gyro.Unsubscribe {
	f.running.Add(1)
	defer f.running.Add(-1)
	return f.testFeed.Run(publish)
}

func (f *countedFeed) Close() {
	if f.closes.Load() > 0 {
		f.twice.Add(1)
		return
	}
	f.testFeed.Close()
	f.open.Add(-1)
}
