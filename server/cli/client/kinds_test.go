package client

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/wire"
)

// follow runs a client of one channel until the test ends.
func follow(t *testing.T, cfg Config) <-chan Event {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	events := make(chan Event, 10_000)
	cfg.Handle = func(e Event) error {
		events <- e
		return nil
	}
	c := New(cfg)
	go func() {
		if err := c.Run(ctx); ctx.Err() == nil {
			t.Errorf("the client has ended: %v", err)
			close(events)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-c.ended
	})
	return events
}

// TestMapAsItIs: whatever happens to the connection and the history of changes, what the client was told is what the map has,
// with deltas and without.
func TestMapAsItIs(t *testing.T) {
	t.Parallel()
	for _, delta := range []bool{false, true} {
		for _, options := range []channel.MapOptions{{KeyTTL: time.Hour}, {StreamSize: 8, StreamTTL: time.Hour, Delta: true}} {
			t.Run(fmt.Sprint(delta, options.StreamSize), func(t *testing.T) {
				t.Parallel()
				followMap(t, delta, options)
			})
		}
	}
}

func followMap(t *testing.T, delta bool, options channel.MapOptions) {
	setup := setup()
	setup.Handlers.Subscribe = func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
		return gyro.SubscribeReply{Options: gyro.SubscribeOptions{AllowDelta: true, Map: &channel.MapSubscription{
			Kind: channel.MapData, Ephemeral: options.StreamSize == 0, PageSize: 3, MinPageSize: 1, MaxPageSize: 3,
		}}}, nil
	}
	server := gyrotest.NewServer(t, setup)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want, random := make(map[string]string), rand.New(rand.NewPCG(1, 2))
	set := func(key, value string, removed bool) {
		t.Helper()
		if want[key] = value; removed {
			delete(want, key)
		}
		_, err := server.Node.Maps().Change(t.Context(), "m", &channel.Publication{Key: key, Data: []byte(value), Removed: removed}, options)
		must(err)
	}
	steps := func(n int) {
		t.Helper()
		for range n {
			key := fmt.Sprint("k", random.IntN(12))
			_, there := want[key]
			set(key, fmt.Sprintf(`{"n":%d,"text":%q}`, random.IntN(1000), strings.Repeat("the same in all ", 20)), there && random.IntN(4) == 0)
		}
	}
	steps(20)
	events := follow(t, Config{Dialer: &wire.Dialer{URL: server.URL}, Delta: delta, Channels: []Channel{{Name: "m", Type: Map}}})
	has, live, resets, recovered := make(map[string]string), false, 0, 0
	// read takes events until the client has the last change and has caught up.
	read := func(last string) {
		t.Helper()
		for !live || has["end"] != last {
			select {
			case e, ok := <-events:
				if !ok {
					return
				}
				switch e.Kind {
				case Reset:
					clear(has)
					live = false
					resets++
				case Disconnected, Unsubscribed:
					live = false
				case Subscribed:
					if live = true; e.Result.Recovered {
						recovered++
					}
				case Entry, Published:
					if has[e.Publication.Key] = string(e.Publication.Data); e.Publication.Removed {
						delete(has, e.Publication.Key)
					}
				}
			case <-time.After(patience):
				t.Fatalf("%s does not come: %v", last, has)
			}
		}
		if !maps.Equal(has, want) {
			t.Fatalf("after %s: got %v\nwant %v", last, has, want)
		}
	}
	for round := range 30 {
		switch {
		case round%10 == 9:
			must(server.Node.Disconnect(t.Context(), gyro.Target{User: "ann"}, &gyro.DisconnectOptions{Disconnect: &protocol.DisconnectForceReconnect}))
		case round%5 == 4:
			must(server.Node.Unsubscribe(t.Context(), gyro.Target{User: "ann"}, "m", &protocol.Unsubscribe{Code: 2500, Reason: "again"}))
		}
		steps(random.IntN(12)) // more than the stream has, at times
		last := fmt.Sprintf(`"%d"`, round)
		set("end", last, false)
		read(last)
	}
	if options.StreamSize == 0 && resets == 0 || options.StreamSize > 0 && recovered == 0 {
		t.Errorf("%d resets, %d recoveries", resets, recovered)
	}
}

// TestPollSignatures: the signature of keys is replaced in time, and over connections versions stay.
func TestPollSignatures(t *testing.T) {
	t.Parallel()
	setup := setup()
	setup.PingInterval, setup.PongTimeout = time.Second, 500*time.Millisecond
	signatures := make(chan string, 100)
	poll := &channel.SharedPoll{
		Versioned: true, Interval: time.Hour,
		Poll: func(_ context.Context, _ string, keys []channel.PolledKey) (a channel.PollAnswer, err error) {
			for _, k := range keys {
				a.Values = append(a.Values, channel.KeyValue{Key: k.Key, Data: []byte(`"old"`), Version: 3})
			}
			return a, nil
		},
		Track: func(_ context.Context, r *channel.TrackRequest) error {
			signatures <- fmt.Sprint(r.Batches[0].Signature, r.Batches[0].Keys)
			r.Batches[0].ExpireAt = time.Now().Add(2 * time.Second)
			return nil
		},
	}
	setup.Handlers.Subscribe = func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
		return gyro.SubscribeReply{Options: gyro.SubscribeOptions{Poll: poll}}, nil
	}
	server := gyrotest.NewServer(t, setup)
	signed := 0
	events := follow(t, Config{
		Dialer: &wire.Dialer{URL: server.URL}, Channels: []Channel{{Name: "shop", Type: SharedPoll, Keys: []string{"milk", "bread"}}},
		SignKeys: func(ch string, keys []string) (string, error) {
			signed++
			return fmt.Sprint(ch, signed), nil
		},
	})
	for range 2 {
		if e := await(t, events, Published); e.Publication.Version != 3 || string(e.Publication.Data) != `"old"` {
			t.Errorf("%+v", e.Publication)
		}
	}
	for n := 1; n <= 2; n++ { // the second one is that of a ping
		select {
		case got := <-signatures:
			if want := fmt.Sprintf("shop%d[milk bread]", n); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		case <-time.After(patience):
			t.Fatal("the signature is not replaced")
		}
	}
	if err := server.Node.Disconnect(t.Context(), gyro.Target{User: "ann"}, &gyro.DisconnectOptions{Disconnect: &protocol.DisconnectForceReconnect}); err != nil {
		t.Fatal(err)
	}
	await(t, events, Subscribed) // it tracks the keys again, which nobody waits for: so what is published may come too early
	for version := uint64(4); ; version++ {
		if err := server.Node.Polls().Publish(t.Context(), "shop", "", channel.KeyValue{Key: "milk", Data: []byte(`"new"`), Version: version}); err != nil {
			t.Fatal(err)
		}
		select {
		case e := <-events:
			if e.Kind == Published {
				if string(e.Publication.Data) != `"new"` {
					t.Errorf("%+v", e.Publication)
				}
				return
			}
		case <-time.After(20 * time.Millisecond):
			if version > 1000 {
				t.Fatal("nothing comes over the second connection")
			}
		}
	}
}

// TestBrokenDelta: a patch that does not fit is an error, whatever it is.
func TestBrokenDelta(t *testing.T) {
	t.Parallel()
	for _, data := range []string{`{"a":1}`, `"x"`, `""`, `"A\n5:abc"`, `"~~~~~~\n1@~~~~~~,"`, `"1\n1:"`} {
		w := whole{on: true, bases: map[string][]byte{"k": []byte("base")}}
		if err := w.restore(&protocol.Publication{Key: "k", Data: []byte(data), Delta: true}); err == nil {
			t.Errorf("%s is applied", data)
		}
	}
	if err := (&whole{on: true}).restore(&protocol.Publication{Key: "k", Data: []byte(`"A"`), Delta: true}); err == nil {
		t.Error("a patch is applied to nothing")
	}
}
