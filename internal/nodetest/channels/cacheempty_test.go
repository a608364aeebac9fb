package channels

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
)

// filler is an application that keeps the state of channels elsewhere.
type filler struct {
	node   *gyro.Node
	state  map[string]string // to publish into empty channels
	answer func(ch string) (populated bool, err error)

	mu    sync.Mutex
	calls []string
}

// fill implements Handlers.CacheEmpty: it takes a second.
func (f *filler) fill(ctx context.Context, e gyro.CacheEmptyEvent) (gyro.CacheEmptyReply, error) {
	if e.Inline {
		return gyro.CacheEmptyReply{}, gyro.ErrWouldBlock
	}
	f.mu.Lock()
	f.calls = append(f.calls, e.Channel)
	f.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return gyro.CacheEmptyReply{}, ctx.Err()
	}
	if data, ok := f.state[e.Channel]; ok {
		_, err := f.node.Publish(ctx, e.Channel, []byte(data), nodetest.Keep(1, time.Minute))
		return gyro.CacheEmptyReply{Populated: err == nil}, err
	}
	if f.answer == nil {
		return gyro.CacheEmptyReply{}, nil
	}
	populated, err := f.answer(e.Channel)
	return gyro.CacheEmptyReply{Populated: populated}, err
}

func (f *filler) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.calls
	f.calls = nil
	return asked
}

var cached = gyro.SubscribeOptions{Recoverable: true, RecoveryMode: gyro.RecoverCache, AutoRecover: true}

// filling runs a node with a memory broker, or with one that seems to be reached over a network, and
// with handlers that are called inline, or not.
func filling(t *testing.T, f *filler, cfg gyro.Config) *gyro.Node {
	cfg.Handlers = nodetest.Everything(cached, gyro.PublishOptions{})
	cfg.Handlers.CacheEmpty = f.fill
	f.node = nodetest.Run(t, cfg)
	return f.node
}

// eachFilling runs a test with all kinds of nodes on which empty streams are filled differently.
func eachFilling(t *testing.T, test func(t *testing.T, cfg gyro.Config)) {
	for name, cfg := range map[string]func() gyro.Config{
		"local":  func() gyro.Config { return gyro.Config{} },
		"inline": func() gyro.Config { return gyro.Config{InlineHandlers: true} },
		"distant": func() gyro.Config {
			return gyro.Config{Broker: nodetest.Plain(memory.New(memory.Config{})), Presence: memory.NewPresence(memory.Config{}), InlineHandlers: true}
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, cfg()) }) })
	}
}

// A thousand clients come back to a stream that is lost: the application is asked once, and all get
// what it publishes.
func TestCacheEmpty(t *testing.T) {
	eachFilling(t, func(t *testing.T, cfg gyro.Config) {
		f := &filler{state: map[string]string{"ch": `1`}}
		node := filling(t, f, cfg)
		var all sync.WaitGroup
		for i := range 1000 {
			c := nodetest.Connect(t, node, "u")
			all.Go(func() {
				fields := []string{``, `"recover":true,"epoch":"lost","offset":7`, `"recover":true`}[i%3]
				res := c.Subscribe("ch", fields)
				if !res.Recovered || len(res.Publications) != 1 || string(res.Publications[0].Data) != `1` || res.Publications[0].Offset != 1 {
					t.Errorf("%s: %+v", fields, res)
				}
				nodetest.WantPub(t, c, `2`) // and not what it has got already
			})
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		nodetest.Publish(t, node, "ch", `2`, nodetest.Keep(1, time.Minute))
		all.Wait()
		if got := f.asked(); !slices.Equal(got, []string{"ch"}) {
			t.Errorf("asked about %q", got)
		}
	})
}

// Who has what there is, or needs no publication, does not make the node ask.
func TestCacheNotEmpty(t *testing.T) {
	eachFilling(t, func(t *testing.T, cfg gyro.Config) {
		f := new(filler)
		node := filling(t, f, cfg)
		at := nodetest.Publish(t, node, "ch", `1`, nodetest.Keep(1, time.Minute)).Position
		c := nodetest.Connect(t, node, "u")
		c.Subscribe("ch", "")
		c.Do(`"history":{"channel":"ch","limit":-1}`)
		c.Do(`"history":{"channel":"none"}`) // the position alone
		time.Sleep(2 * time.Minute)          // the publication is gone, its position is not
		c = nodetest.Connect(t, node, "u")
		if res := recoverFrom(c, t, at.Epoch, at.Offset); !res.Recovered || len(res.Publications) > 0 {
			t.Errorf("at the top: %+v", res)
		}
		for _, since := range []string{`"limit":-1,"since":{"offset":1,"epoch":"` + at.Epoch + `"}`, `"limit":-1,"reverse":true,"since":{"offset":1}`} {
			if h := c.Do(`"history":{"channel":"ch",` + since + `}`).History; len(h.Publications) > 0 {
				t.Errorf("%+v", h)
			}
		}
		if got := f.asked(); len(got) > 0 {
			t.Errorf("asked about %q", got)
		}
		// Another position is not the top.
		if res := recoverFrom(nodetest.Connect(t, node, "v"), t, at.Epoch, at.Offset+1); res.Recovered || len(f.asked()) != 1 {
			t.Errorf("behind the top: %+v", res)
		}
	})
}

// A subscriber that recovers everything, and one that does not recover, need no latest publication.
func TestCacheEmptyOtherModes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(filler)
		h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
		h.Subscribe = func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (reply gyro.SubscribeReply, err error) {
			reply.Options.Recoverable = true
			if e.Channel == "cache" {
				reply.Options.RecoveryMode = gyro.RecoverCache
			}
			return reply, nil
		}
		h.CacheEmpty = f.fill
		c := nodetest.Connect(t, nodetest.Run(t, gyro.Config{Handlers: h}), "u")
		c.Subscribe("stream", `"recover":true,"epoch":"lost","offset":7`)
		c.Subscribe("cache", ``)
		if got := f.asked(); len(got) > 0 {
			t.Errorf("asked about %q", got)
		}
	})
}

// A client that reads history of an empty stream makes the node ask, too.
func TestCacheEmptyHistory(t *testing.T) {
	eachFilling(t, func(t *testing.T, cfg gyro.Config) {
		f := &filler{state: map[string]string{"a": `1`}}
		node := filling(t, f, cfg)
		c := nodetest.Connect(t, node, "u")
		for range 2 {
			if h := c.Do(`"history":{"channel":"a","limit":10}`).History; len(h.Publications) != 1 || h.Offset != 1 {
				t.Errorf("%+v", h)
			}
		}
		time.Sleep(2 * time.Minute)
		// The publication behind the position is gone.
		if h := c.Do(`"history":{"channel":"a","limit":10,"since":{"offset":0}}`).History; len(h.Publications) != 1 || h.Publications[0].Offset != 2 {
			t.Errorf("%+v", h)
		}
		if h := c.Do(`"history":{"channel":"b","limit":1,"reverse":true}`).History; len(h.Publications) > 0 {
			t.Errorf("%+v", h)
		}
		if got := f.asked(); !slices.Equal(got, []string{"a", "a", "b"}) {
			t.Errorf("asked about %q", got)
		}
		// A program that reads does not ask itself.
		if _, err := node.History(t.Context(), "c", &gyro.HistoryFilter{Limit: 1}); err != nil || len(f.asked()) > 0 {
			t.Error("Node.History asked:", err)
		}
	})
}

// An application that has nothing, or that fails, is not asked by each of a thousand clients.
func TestCacheEmptyFails(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(string) (bool, error)
		want   string
	}{
		"nothing":     {func(string) (bool, error) { return false, nil }, "ok"},
		"lies":        {func(string) (bool, error) { return true, nil }, "ok"},
		"fails":       {func(string) (bool, error) { return false, errors.New("no database") }, "error 100"},
		"refuses":     {func(string) (bool, error) { return false, gyro.Error{Code: 403, Message: "no"} }, "error 403"},
		"nil pointer": {func(string) (bool, error) { return false, (*gyro.Error)(nil) }, "error 100"},
		"panics":      {func(string) (bool, error) { panic("oops") }, "error 100"},
		"disconnects": {func(string) (bool, error) { return false, gyro.Disconnect{Code: 4100, Reason: "go"} }, "disconnect 4100"},
	} {
		t.Run(name, func(t *testing.T) {
			eachFilling(t, func(t *testing.T, cfg gyro.Config) {
				f := &filler{answer: tt.answer}
				cfg.Logger = nodetest.Quiet
				node := filling(t, f, cfg)
				var all sync.WaitGroup
				for range 20 {
					for _, command := range []string{`"subscribe":{"channel":"ch"}`, `"history":{"channel":"ch","limit":1}`} {
						c := nodetest.Connect(t, node, "u")
						all.Go(func() {
							got, reply := c.Outcome(command)
							if got != tt.want {
								t.Errorf("%s: %s, want %s", command, got, tt.want)
							}
							if reply != nil && reply.Subscribe != nil && (reply.Subscribe.Recovered || reply.Subscribe.WasRecovering) {
								t.Errorf("%+v", reply.Subscribe)
							}
						})
					}
				}
				all.Wait()
				if n := len(f.asked()); n != 1 {
					t.Errorf("asked %d times", n)
				}
			})
		})
	}
}

// While the application is asked, nobody else waits; a client that goes leaves nothing.
func TestCacheEmptyHoldsNobodyUp(t *testing.T) {
	eachFilling(t, func(t *testing.T, cfg gyro.Config) {
		f := &filler{state: map[string]string{"ch": `1`}}
		node := filling(t, f, cfg)
		waits := nodetest.Connect(t, node, "u")
		synctest.Wait()
		waits.Start(`"subscribe":{"channel":"ch"}`)
		synctest.Wait()
		start := time.Now()
		other := nodetest.Connect(t, node, "v")
		other.Do(`"publish":{"channel":"other","data":1}`)
		if took := time.Since(start); took > 0 {
			t.Errorf("another client waited for %v", took)
		}
		if waits.Vanish(); len(f.asked()) != 1 {
			t.Error("not asked")
		}
	})
}

// Channels of a connect are filled at the same time; if one is not, the connect fails.
func TestCacheEmptyOnConnect(t *testing.T) {
	eachFilling(t, func(t *testing.T, cfg gyro.Config) {
		channels := []string{"a", "b", "c"}
		f := &filler{state: map[string]string{"a": `1`, "b": `2`, "c": `3`}}
		cfg.Handlers = nodetest.Everything(cached, gyro.PublishOptions{})
		cfg.Handlers.CacheEmpty = f.fill
		cfg.Handlers.Connecting = func(ctx context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
			reply, err := nodetest.As(ctx, e)
			reply.Subscriptions = make(map[string]gyro.SubscribeOptions)
			for _, ch := range channels {
				reply.Subscriptions[ch] = cached
			}
			return reply, err
		}
		cfg.Logger = nodetest.Quiet
		f.node = nodetest.Run(t, cfg)
		start, c := time.Now(), wstest.Pipe(t, f.node)
		for ch, sub := range c.Connect("").Subs {
			if len(sub.Publications) != 1 || string(sub.Publications[0].Data) != f.state[ch] {
				t.Errorf("%s: %+v", ch, sub)
			}
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("the connect took %v", took)
		}
		f.answer = func(string) (bool, error) { return false, errors.New("no database") }
		channels = append(channels, "d")
		if got, _ := wstest.Pipe(t, f.node).Outcome(`"connect":{}`); got != "error 100" {
			t.Error(got)
		}
	})
}

// A stream that is no longer empty when it is read inline needs nobody to be asked, and one that has
// become empty meanwhile does not make the loop wait.
func TestCacheEmptyMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(filler)
		h := nodetest.Everything(cached, gyro.PublishOptions{})
		h.CacheEmpty = f.fill
		b := &emptied{Broker: memory.New(memory.Config{}), before: func(int) {}}
		node := nodetest.Run(t, gyro.Config{Broker: b, InlineHandlers: true, Handlers: h})
		f.node = node
		nodetest.Publish(t, node, "ch", `1`, nodetest.Keep(1, time.Minute))
		c := nodetest.Connect(t, node, "u")
		synctest.Wait()
		b.n, b.before = 0, func(n int) {
			if n == 2 {
				_ = b.RemoveHistory(t.Context(), "ch")
			}
		}
		if res := c.Subscribe("ch", ""); res.Recovered || len(f.asked()) > 0 || b.n != 2 {
			t.Errorf("%+v after %d reads", res, b.n)
		}
	})
}

// emptied is a local broker that does something before each read.
type emptied struct {
	broker.Broker
	n      int
	before func(n int)
}

func (b *emptied) History(ctx context.Context, ch string, f broker.HistoryFilter) (broker.History, error) {
	b.n++
	b.before(b.n)
	return b.Broker.History(ctx, ch, f)
}

// A failure of the application that has a reason is a refusal in the log, and no failure of an engine.
func TestCacheEmptyLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		f := &filler{answer: func(string) (bool, error) { return false, protocol.ErrorTooManyRequests }}
		node := filling(t, f, gyro.Config{Logger: slog.New(slog.NewTextHandler(&lines, nil))})
		if got, _ := nodetest.Connect(t, node, "u").Outcome(`"subscribe":{"channel":"ch"}`); got != "error 111" {
			t.Error(got)
		}
		if err := node.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if log := lines.String(); !strings.Contains(log, `msg="subscribe refused"`) || strings.Contains(log, "ERROR") {
			t.Error(log)
		}
	})
}
