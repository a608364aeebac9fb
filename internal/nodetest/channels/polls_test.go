package channels

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/protocol"
)

// board has the values of a program, by key.
type board struct {
	mu    sync.Mutex
	now   map[string]string
	calls int
}

func (p *board) set(key, value string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now[key] = value
}

func (p *board) poll(_ context.Context, ch string, keys []channel.PolledKey) (a channel.PollAnswer, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if ch != "shop" || len(keys) > 2 {
		return a, errors.New("a wrong question")
	}
	for _, k := range keys {
		if v, ok := p.now[k.Key]; ok {
			a.Values = append(a.Values, channel.KeyValue{Key: k.Key, Data: []byte(v)})
		}
	}
	return a, nil
}

// pollNode is a node whose clients track keys: those that begin with "secret" they may not.
func pollNode(t *testing.T, p *channel.SharedPoll) *gyro.Node {
	p.Track = func(_ context.Context, r *channel.TrackRequest) error {
		for i := range r.Batches {
			b := &r.Batches[i]
			if b.Signature != "ok" || r.User != "ann" || slices.ContainsFunc(b.Keys, func(k string) bool { return strings.HasPrefix(k, "secret") }) {
				return gyro.ErrorPermissionDenied
			}
			b.ExpireAt = time.Now().Add(time.Minute)
		}
		return nil
	}
	return gyrotest.NewNode(t, gyro.Config{Handlers: gyro.Handlers{
		Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
			return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "ann"}}, nil
		},
		Subscribe: func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			if e.Type != channel.TypeSharedPoll {
				return gyro.SubscribeReply{}, gyro.ErrorPermissionDenied
			}
			return gyro.SubscribeReply{Options: gyro.SubscribeOptions{Poll: p}}, nil
		},
	}})
}

func track(keys ...string) *protocol.Command {
	b := &protocol.TrackBatch{Signature: "ok"}
	for _, key := range keys {
		b.Items = append(b.Items, &protocol.KeyedItem{Key: key})
	}
	return &protocol.Command{SubRefresh: &protocol.SubRefreshRequest{Channel: "shop", Type: 1, Track: []*protocol.TrackBatch{b}}}
}

// values waits for pushes with values of keys.
func values(c *gyrotest.Client, n int) (list []string) {
	for range n {
		p := c.Push().Pub
		list = append(list, fmt.Sprintf("%s=%s@%d", p.Key, p.Data, p.Version))
	}
	slices.Sort(list)
	return list
}

// Clients of a Go program get the values of the keys that they track, at once and when they change.
func TestSharedPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &board{now: map[string]string{"milk": "1", "bread": "2"}}
		node := pollNode(t, &channel.SharedPoll{Poll: p.poll, Interval: time.Second, BatchSize: 2})
		c := gyrotest.Open(t, node, nil)
		c.Connect(nil)
		reply := c.Do(&protocol.Command{Subscribe: &protocol.SubscribeRequest{Channel: "shop", Type: 4}})
		if s := reply.Subscribe; s.Type != 4 || len(s.Epoch) != 8 {
			t.Errorf("subscribed: %+v", s)
		}
		if r := c.Do(track("milk", "bread", "unknown")).SubRefresh; !r.Expires || r.TTL != 60 || len(r.Items) > 0 {
			t.Errorf("tracked: %+v", r)
		}
		if got := values(c, 2); !strings.HasPrefix(got[0], "bread=2@") || !strings.HasPrefix(got[1], "milk=1@") {
			t.Errorf("got %v", got)
		}
		p.set("milk", "9")
		if got := values(c, 1); got[0] != "milk=9@3" {
			t.Errorf("got %v", got)
		}
		if _, err := c.Try(track("secret plan")); !errors.Is(err, protocol.ErrorPermissionDenied) {
			t.Errorf("secret: %v", err)
		}
		if channels, keys := node.Polls().Size(); channels != 1 || keys != 3 {
			t.Errorf("%d channels, %d keys", channels, keys)
		}
		if n, err := node.Inspect().NumSubscribers(t.Context(), "shop"); n != 1 || err != nil {
			t.Errorf("%d subscribers, %v", n, err)
		}
		c.Do(&protocol.Command{Unsubscribe: &protocol.UnsubscribeRequest{Channel: "shop"}})
		time.Sleep(2 * time.Second)
		if channels, keys := node.Polls().Size(); channels != 0 || keys != 0 {
			t.Errorf("afterwards %d channels, %d keys", channels, keys)
		}
		before := p.calls
		time.Sleep(time.Minute)
		if p.calls != before {
			t.Error("nobody tracks anything, and the program is asked")
		}
	})
}

// Values that the program publishes reach the clients; what is wrong with them is the error of the call.
func TestSharedPollPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &board{now: map[string]string{}}
		node := pollNode(t, &channel.SharedPoll{Poll: p.poll, Versioned: true, Interval: time.Hour})
		c := gyrotest.Open(t, node, nil)
		c.Connect(nil)
		c.Do(&protocol.Command{Subscribe: &protocol.SubscribeRequest{Channel: "shop", Type: 4}})
		c.Do(track("milk"))
		publish := func(key, data string, version uint64) error {
			return node.Polls().Publish(t.Context(), "shop", "", channel.KeyValue{Key: key, Data: []byte(data), Version: version})
		}
		for _, v := range []struct {
			data    string
			version uint64
		}{{"5", 5}, {"4", 4}, {"6", 6}} {
			if err := publish("milk", v.data, v.version); err != nil {
				t.Error(err)
			}
		}
		if got := values(c, 2); got[0] != "milk=5@5" || got[1] != "milk=6@6" {
			t.Errorf("got %v", got)
		}
		for _, err := range []error{publish("", "1", 1), publish("milk", "1", 0)} {
			if !errors.Is(err, gyro.ErrorBadRequest) {
				t.Errorf("error %v", err)
			}
		}
		if err := publish("milk", "no JSON", 9); err == nil || !strings.Contains(err.Error(), `channel "shop"`) {
			t.Errorf("error %v", err)
		}
		if err := node.Users().Subscribe(t.Context(), gyro.Target{User: "ann"}, "shop", &gyro.SubscribeOptions{Poll: &channel.SharedPoll{}}); !errors.Is(err, gyro.ErrorBadRequest) {
			t.Errorf("a server-side subscription: %v", err)
		}
	})
}

// Many clients on all loops track and leave keys while values are published, epochs change and calls are under way.
// Nothing panics, and nothing is left behind.
func TestSharedPollCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &channel.SharedPoll{Versioned: true, KeepLatest: true, Interval: 20 * time.Millisecond, BatchSize: 3}
		p.Poll = func(_ context.Context, _ string, keys []channel.PolledKey) (a channel.PollAnswer, err error) {
			time.Sleep(7 * time.Millisecond)
			now := time.Now().UnixMilli()
			for _, k := range keys {
				a.Values = append(a.Values, channel.KeyValue{Key: k.Key, Data: []byte("1"), Version: uint64(now), Removed: now%13 == 0})
			}
			a.Epoch = fmt.Sprint(now / 200)
			return a, nil
		}
		node := pollNode(t, p)
		var clients []*gyrotest.Client
		for range 20 {
			c := gyrotest.Open(t, node, nil)
			c.Connect(nil)
			clients = append(clients, c)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 300 {
				v := channel.KeyValue{Key: fmt.Sprint("k", i%7), Data: []byte("2"), Version: uint64(time.Now().UnixMilli())}
				if err := node.Polls().Publish(t.Context(), "shop", "", v); err != nil {
					t.Error(err)
				}
				node.Polls().Notify("shop", v.Key, "k1")
				time.Sleep(3 * time.Millisecond)
			}
		}()
		subscribe := &protocol.Command{Subscribe: &protocol.SubscribeRequest{Channel: "shop", Type: 4}}
		for i := range 300 {
			for n, c := range clients {
				switch (i*7 + n) % 11 {
				case 0:
					c.Start(&protocol.Command{Unsubscribe: &protocol.UnsubscribeRequest{Channel: "shop"}})
				case 1, 2:
					c.Start(subscribe)
				case 3:
					c.Start(&protocol.Command{SubRefresh: &protocol.SubRefreshRequest{Channel: "shop", Type: 2, Untrack: []string{"k1", "k2"}}})
				default:
					c.Start(track(fmt.Sprint("k", (i+n)%7), fmt.Sprint("k", n%7)))
				}
			}
			time.Sleep(3 * time.Millisecond)
		}
		<-done
		for _, c := range clients {
			c.Vanish()
		}
		time.Sleep(2 * time.Minute)
		if channels, keys := node.Polls().Size(); channels != 0 || keys != 0 || node.Inspect().Panics() != 0 {
			t.Errorf("%d channels and %d keys are left, %d panics", channels, keys, node.Inspect().Panics())
		}
	})
}
