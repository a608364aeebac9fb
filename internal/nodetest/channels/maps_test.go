package channels

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/internal/testkit/logtest"
	"github.com/gyrohq/gyro/protocol"
)

// mapHandlers let anybody do anything with maps.
func mapHandlers(m channel.MapSubscription) gyro.Handlers {
	return gyro.Handlers{
		Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
			return gyro.ConnectReply{Credentials: &gyro.Credentials{}}, nil
		},
		Subscribe: func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			m := m
			return gyro.SubscribeReply{Options: gyro.SubscribeOptions{Map: &m, AllowDelta: true}}, nil
		},
		MapChange: func(context.Context, *gyro.Client, gyro.MapChangeEvent) (gyro.MapChangeReply, error) {
			return gyro.MapChangeReply{Options: mapOptions(m.Ephemeral)}, nil
		},
	}
}

func mapOptions(ephemeral bool) channel.MapOptions {
	if ephemeral {
		return channel.MapOptions{KeyTTL: time.Hour}
	}
	return channel.MapOptions{StreamSize: 40, StreamTTL: time.Hour, Delta: true}
}

// mapReader is a client that follows a map.
type mapReader struct {
	t                   *testing.T
	node                *gyro.Node
	c                   *gyrotest.Client
	ephemeral           bool
	has                 map[string]string
	offset              uint64
	epoch               string
	recovered, restarts int
}

func (r *mapReader) apply(pubs ...*protocol.Publication) {
	for _, p := range pubs {
		r.offset = max(r.offset, p.Offset)
		if r.has[p.Key] = string(p.Data); p.Removed {
			delete(r.has, p.Key)
		}
	}
}

func (r *mapReader) connect() {
	r.c = gyrotest.Open(r.t, r.node, nil)
	r.c.Connect(nil)
}

// catchUp subscribes: with the position if there is one, or from the entries on.
func (r *mapReader) catchUp(limit int32) {
	req := protocol.SubscribeRequest{Channel: "m", Type: 1, Phase: 2, Limit: limit}
	if r.epoch != "" {
		req.Phase, req.Recover, req.Offset, req.Epoch = 1, true, r.offset, r.epoch
	} else {
		r.has, r.offset = map[string]string{}, 0
	}
	for {
		reply, err := r.c.Try(&protocol.Command{Subscribe: new(req)})
		var answer *protocol.Error
		switch {
		case errors.As(err, &answer) && answer.Code == protocol.ErrorUnrecoverablePosition.Code:
			r.epoch = ""
			r.restarts++
			r.catchUp(limit)
			return
		case err != nil:
			r.t.Fatal(err)
		}
		res := reply.Subscribe
		r.apply(res.State...)
		r.apply(res.Publications...)
		req.Cursor, req.Offset, req.Epoch = res.Cursor, res.Offset, res.Epoch
		switch {
		case res.Phase == 0:
			if r.offset, r.epoch = res.Offset, res.Epoch; res.Recovered {
				r.recovered++
			}
			return
		case res.Cursor == "":
			req.Phase = 1
		}
	}
}

// read takes the pushes that have come, and subscribes again if one of them ends the subscription.
func (r *mapReader) read() {
	for _, p := range r.c.Pushes() {
		if p.Unsubscribe != nil {
			r.catchUp(20)
			continue
		}
		r.apply(p.Pub)
	}
}

// TestMapSubscriptions: clients that come, go and come back while a map changes have the map in the end.
func TestMapSubscriptions(t *testing.T) {
	for _, ephemeral := range []bool{false, true} {
		t.Run(fmt.Sprint("ephemeral ", ephemeral), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testMapSubscriptions(t, ephemeral) })
		})
	}
}

func testMapSubscriptions(t *testing.T, ephemeral bool) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	node := gyrotest.NewNode(t, gyro.Config{Handlers: mapHandlers(channel.MapSubscription{
		Kind: channel.MapData, Ephemeral: ephemeral, MinPageSize: 1, MaxPageSize: 20,
	})})
	var readers []*mapReader
	for range 8 {
		r := &mapReader{t: t, node: node, ephemeral: ephemeral}
		r.connect()
		r.catchUp(3)
		readers = append(readers, r)
	}
	model := map[string]string{}
	steps := 4000
	for step := range steps {
		key := fmt.Sprintf("key%02d", random.IntN(30))
		pub := &channel.Publication{Key: key, Data: fmt.Append(nil, step)}
		if _, ok := model[key]; ok && random.IntN(3) == 0 {
			pub.Removed, pub.Data = true, nil
			delete(model, key)
		} else {
			model[key] = fmt.Sprint(step)
		}
		if _, err := node.Maps().Change(t.Context(), "m", pub, mapOptions(ephemeral)); err != nil {
			t.Fatal(err)
		}
		r := readers[random.IntN(len(readers))]
		switch random.IntN(12) {
		case 0:
			synctest.Wait()
			r.read()
			r.c.Vanish()
			r.c = nil
			r.connect()
			r.catchUp(int32(1 + random.IntN(20)))
		case 1:
			synctest.Wait()
			r.read()
		}
		if step%1000 == 999 && !ephemeral && random.IntN(2) == 0 {
			if err := node.Maps().Clear(t.Context(), "m"); err != nil {
				t.Fatal(err)
			}
			clear(model)
			time.Sleep(time.Minute)
		}
	}
	synctest.Wait()
	recovered, restarts := 0, 0
	for i, r := range readers {
		if r.read(); !maps.Equal(r.has, model) {
			t.Errorf("seed %d: client %d has %v, the map %v", seed, i, r.has, model)
		}
		recovered, restarts = recovered+r.recovered, restarts+r.restarts
	}
	t.Logf("recovered %d times, began anew %d times", recovered, restarts)
}

// Clients subscribe to maps themselves.
func TestServerSubscribesToNoMap(t *testing.T) {
	options := gyro.SubscribeOptions{Map: &channel.MapSubscription{Kind: channel.MapData}}
	synctest.Test(t, func(t *testing.T) {
		h := mapHandlers(channel.MapSubscription{})
		h.Connecting = func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
			return gyro.ConnectReply{Credentials: &gyro.Credentials{}, Subscriptions: map[string]gyro.SubscribeOptions{"m": options}}, nil
		}
		node := gyrotest.NewNode(t, gyro.Config{Handlers: h})
		c := gyrotest.Open(t, node, nil)
		if _, err := c.Try(&protocol.Command{Connect: &protocol.ConnectRequest{}}); !errors.Is(err, gyro.ErrorBadRequest) {
			t.Errorf("connect: %v", err)
		}
		if err := node.Users().Subscribe(t.Context(), gyro.Target{}, "m", &options); !errors.Is(err, gyro.ErrorBadRequest) {
			t.Errorf("subscribe: %v", err)
		}
	})
}

// A subscription that recovers, beside changes of a map that keeps none: a client that comes back gets the entries
// anew, and the log names the options that contradict each other.
func TestMapSubscriptionBesideEphemeralChanges(t *testing.T) {
	for _, kept := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var log logtest.Buffer
			node := gyrotest.NewNode(t, gyro.Config{
				Handlers: mapHandlers(channel.MapSubscription{Kind: channel.MapData}), Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			set := func(data string) {
				t.Helper()
				_, err := node.Maps().Change(t.Context(), "m", &gyro.Publication{Key: "k", Data: []byte(data)}, mapOptions(!kept))
				if err != nil {
					t.Fatal(err)
				}
			}
			set("1")
			r := &mapReader{t: t, node: node, has: map[string]string{}}
			r.connect()
			r.catchUp(20)
			set("2")
			synctest.Wait()
			warned := strings.Contains(log.Take(), "MapSubscription.Ephemeral is not set")
			r.read()
			r.c.Vanish()
			synctest.Wait()
			set("3")
			r.connect()
			r.catchUp(20)
			if r.has["k"] != "3" {
				t.Errorf("kept %v: the client has %v", kept, r.has)
			}
			explained := strings.Contains(log.Take(), "MapOptions have no StreamSize and StreamTTL, but MapSubscription.Ephemeral is not set")
			if recovered := r.recovered == 1; recovered != kept || warned == kept || explained == kept {
				t.Errorf("kept %v: recovered %d times, began anew %d times; warned %v, explained %v", kept, r.recovered, r.restarts, warned, explained)
			}
		})
	}
}

// Subscribers of an ephemeral map keep no position, so the log does not warn of its changes.
func TestEphemeralMapIsNotWarnedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Buffer
		node := gyrotest.NewNode(t, gyro.Config{
			Handlers: mapHandlers(channel.MapSubscription{Kind: channel.MapData, Ephemeral: true}), Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		r := &mapReader{t: t, node: node, ephemeral: true, has: map[string]string{}}
		r.connect()
		r.catchUp(20)
		if _, err := node.Maps().Change(t.Context(), "m", &gyro.Publication{Key: "k", Data: []byte("1")}, mapOptions(true)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if lines := log.Take(); strings.Contains(lines, "WARN") {
			t.Error(lines)
		}
	})
}

// The log says what the options of a change lack, which clients are not told.
func TestMapOptionsAreExplained(t *testing.T) {
	position := &gyro.StreamPosition{Offset: 1}
	for _, tt := range []struct {
		reply gyro.MapChangeReply
		want  string
	}{
		{gyro.MapChangeReply{}, "it needs a KeyTTL, or both of them"},
		{gyro.MapChangeReply{Options: channel.MapOptions{KeyTTL: time.Hour, Expected: position}}, "Expected needs both of them"},
		{gyro.MapChangeReply{Options: channel.MapOptions{KeyTTL: time.Hour}, Version: 1}, "Publication.Version needs both of them"},
	} {
		var log logtest.Buffer
		h := mapHandlers(channel.MapSubscription{Kind: channel.MapData})
		h.MapChange = func(context.Context, *gyro.Client, gyro.MapChangeEvent) (gyro.MapChangeReply, error) {
			return tt.reply, nil
		}
		node := gyrotest.NewNode(t, gyro.Config{Handlers: h, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		c := gyrotest.Open(t, node, nil)
		c.Connect(nil)
		_, err := c.Try(&protocol.Command{Publish: &protocol.PublishRequest{Channel: "m", Type: 1, Key: "k", Data: []byte("1")}})
		if !errors.Is(err, protocol.ErrorBadRequest) {
			t.Error(err)
		}
		if !log.Await(func(log string) bool {
			return strings.Contains(log, "MapOptions have no StreamSize and StreamTTL") && strings.Contains(log, tt.want)
		}) {
			t.Errorf("the log lacks %q: %s", tt.want, log.String())
		}
	}
}

// In a map with MapOptions.MaxEntries entries a client sets no new key, and the log says why.
func TestClientsCannotFillMaps(t *testing.T) {
	for _, ephemeral := range []bool{false, true} {
		var log logtest.Buffer
		h := mapHandlers(channel.MapSubscription{Kind: channel.MapData})
		h.MapChange = func(context.Context, *gyro.Client, gyro.MapChangeEvent) (gyro.MapChangeReply, error) {
			o := mapOptions(ephemeral)
			o.MaxEntries = 2
			return gyro.MapChangeReply{Options: o}, nil
		}
		node := gyrotest.NewNode(t, gyro.Config{Handlers: h, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		c := gyrotest.Open(t, node, nil)
		id := c.Connect(nil).Client
		change := func(key string, removed bool) error {
			_, err := c.Try(&protocol.Command{Publish: &protocol.PublishRequest{Channel: "m", Type: 1, Key: key, Data: []byte("1"), Removed: removed}})
			return err
		}
		for i, step := range []struct {
			got  error
			full bool
		}{
			{change("a", false), false}, {change("b", false), false}, {change("c", false), true},
			{change("a", false), false}, {change("b", true), false}, {change("c", false), false},
		} {
			if full := errors.Is(step.got, protocol.ErrorLimitExceeded); full != step.full || !full && step.got != nil {
				t.Errorf("step %d: %v", i, step.got)
			}
		}
		for _, part := range []string{"publish refused", "client=" + id, "channel=m", "code=106", "the map has at least 2 entries", "key=MapOptions.MaxEntries"} {
			if !log.Await(func(log string) bool { return strings.Contains(log, part) }) {
				t.Errorf("the log lacks %q: %s", part, log.String())
			}
		}
		o := mapOptions(ephemeral)
		o.MaxEntries = 2
		result, err := node.Maps().Change(t.Context(), "m", &gyro.Publication{Key: "d", Data: []byte("1")}, o)
		if err != nil || result.Suppressed != channel.SuppressMapFull {
			t.Errorf("the application: %+v, %v", result, err)
		}
	}
}

// Who is there is shown, however many there are.
func TestPresenceMapsHaveNoBound(t *testing.T) {
	h := mapHandlers(channel.MapSubscription{})
	h.Subscribe = func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
		o := mapOptions(true)
		o.MaxEntries = 1
		return gyro.SubscribeReply{Options: gyro.SubscribeOptions{PresenceMaps: []channel.PresenceMap{{Channel: "who", Kind: channel.MapClients, Options: o}}}}, nil
	}
	node := gyrotest.NewNode(t, gyro.Config{Handlers: h})
	for range 3 {
		c := gyrotest.Open(t, node, nil)
		c.Connect(nil)
		c.Do(&protocol.Command{Subscribe: &protocol.SubscribeRequest{Channel: "ch"}})
	}
	if s, err := node.Maps().State(t.Context(), "who", channel.StateFilter{}); err != nil || s.Count != 3 {
		t.Errorf("%+v, %v", s, err)
	}
}
