package sharedpoll

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/internal/testkit/proptest"
	"github.com/gyrohq/gyro/protocol"
)

// A node with several loops, clients that behave as the SDK, and an application that is slow, fails, gives older answers,
// removes keys and begins new epochs. Whatever happens, no client gets a key that it does not track, or a version that is
// not newer than its own, or a difference to what it does not have; and when all is calm, each has what the
// application has.
func TestSimulatedNode(t *testing.T) {
	for seed := range uint64(proptest.Rounds(30)) {
		synctest.Test(t, func(t *testing.T) {
			w := newSim(t, seed)
			w.live()
			w.table.Close()
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
		if t.Failed() {
			return
		}
	}
}

const name = "prices"

// sim is the world of one seed.
type sim struct {
	t       *testing.T
	random  *rand.Rand
	seed    uint64
	opts    *channel.SharedPoll
	table   *Table
	loops   []*simLoop
	clients []*simClient
	keys    []string

	mu     sync.Mutex // for the application
	epochs bool
	epoch  int
	now    map[string]content
	before map[string]content // an older state of the same epoch
	said   map[string]bool    // all values that there ever were
	calm   bool
}

// content is a value at the application.
type content struct {
	version uint64
	data    string
	gone    bool
}

type simLoop struct {
	on    Loop
	mu    sync.Mutex
	inbox []*hub.Message
}

func newSim(t *testing.T, seed uint64) *sim {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &sim{t: t, random: r, seed: seed, now: map[string]content{}, said: map[string]bool{}, epochs: r.IntN(2) == 0}
	for i := range 6 {
		w.keys = append(w.keys, fmt.Sprintf("k%d", i))
	}
	w.opts = &channel.SharedPoll{
		Poll: w.poll, Versioned: r.IntN(2) == 0, KeepLatest: r.IntN(2) == 0, Interval: time.Second, BatchSize: 1 + r.IntN(4),
		Linger: []time.Duration{0, -1, 3 * time.Second}[r.IntN(3)],
	}
	if r.IntN(3) == 0 {
		w.opts.MaxInterval = 4 * time.Second
	}
	if r.IntN(2) == 0 {
		w.opts.NotifyDelay, w.opts.NotifyBatch = time.Duration(1+r.IntN(800))*time.Millisecond, r.IntN(8)
	}
	w.table = New(Config{
		Loops: 1 + r.IntN(3), Concurrency: 1 + r.IntN(3), Log: slog.New(slog.DiscardHandler),
		Check: func(string, []byte) (bool, error) { return true, nil },
		Post: func(loop int, m *hub.Message) {
			l := w.loops[loop]
			l.mu.Lock()
			defer l.mu.Unlock()
			l.inbox = append(l.inbox, m)
		},
	})
	for i := range 3 {
		w.loops = append(w.loops, &simLoop{on: Loop{Hub: hub.New(new(sendqueue.Arena)), Index: i, Table: w.table}})
	}
	return w
}

// poll is the application. What it does depends on the question alone, so that a seed is one history.
func (w *sim) poll(ctx context.Context, _ string, keys []channel.PolledKey) (a channel.PollAnswer, err error) {
	h := fnv.New64()
	fmt.Fprint(h, time.Now().UnixNano(), keys)
	r := rand.New(rand.NewPCG(w.seed, h.Sum64()))
	w.mu.Lock()
	wait := time.Duration(r.IntN(1500)) * time.Millisecond
	state := w.now
	switch kind := r.IntN(10); {
	case w.calm:
		wait = 0
	case kind == 0:
		err = errors.New("boom")
	case kind == 1 && w.before != nil:
		state = w.before
	case kind < 6:
		wait = 0
	}
	for _, k := range keys {
		c, known := state[k.Key]
		if known && (k.Version == 0 || c.version != k.Version || r.IntN(2) == 0) {
			v := channel.KeyValue{Key: k.Key, Data: []byte(c.data), Version: c.version, Removed: c.gone}
			a.Values = append(a.Values, v)
		}
	}
	if w.epochs && w.opts.Versioned {
		a.Epoch = fmt.Sprint("e", w.epoch)
	}
	w.mu.Unlock()
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return channel.PollAnswer{}, ctx.Err()
	}
	return a, err
}

// change changes a key at the application, and may publish the value.
func (w *sim) change() {
	w.mu.Lock()
	key := w.keys[w.random.IntN(len(w.keys))]
	if w.random.IntN(3) == 0 {
		w.before = maps.Clone(w.now)
	}
	c := w.now[key]
	c.version++
	c.gone = w.random.IntN(8) == 0
	c.data = fmt.Sprintf("%s-%d-%d", key, w.epoch, c.version)
	w.now[key], w.said[c.data] = c, true
	epoch := ""
	if w.epochs {
		epoch = fmt.Sprint("e", w.epoch)
	}
	w.mu.Unlock()
	if node := w.table.Find(name); node != nil && !c.gone && w.random.IntN(3) == 0 {
		node.Publish(epoch, channel.KeyValue{Key: key, Data: []byte(c.data), Version: c.version})
	}
}

// renew begins another epoch.
func (w *sim) renew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.epochs {
		return
	}
	w.epoch++
	w.before = nil
	for key := range w.now {
		data := fmt.Sprintf("%s-%d-1", key, w.epoch)
		w.now[key], w.said[data] = content{version: 1, data: data}, true
	}
}

func (w *sim) live() {
	for range 250 {
		w.step()
	}
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	for range 60 {
		time.Sleep(500 * time.Millisecond)
		w.turn(1 << 20)
		for _, c := range w.clients {
			c.resubscribe()
		}
	}
	for i, c := range w.clients {
		if c.offline {
			continue
		}
		for key := range c.tracked {
			want := w.now[key]
			if got := c.data[key]; want.gone || got != want.data {
				w.t.Errorf("client %d has %q of %s (version %d), the application %+v", i, got, key, c.tracked[key], want)
			}
		}
	}
}

func (w *sim) step() {
	r := w.random
	switch kind := r.IntN(20); {
	case kind < 5:
		w.change()
	case kind == 5 && r.IntN(4) == 0:
		w.renew()
	case kind == 6 && len(w.clients) < 8:
		w.clients = append(w.clients, &simClient{w: w, loop: w.loops[r.IntN(w.table.Loops())], tracked: map[string]uint64{}, data: map[string]string{}})
	case kind == 7:
		if node := w.table.Find(name); node != nil {
			node.Notify(w.keys)
		}
	case kind < 14 && len(w.clients) > 0:
		w.clients[r.IntN(len(w.clients))].act()
	default:
		time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
	}
	w.turn(1 + r.IntN(4))
}

// turn has the loops deliver a part of what was posted.
func (w *sim) turn(budget int) {
	synctest.Wait()
	for _, l := range w.loops {
		l.mu.Lock()
		inbox := l.inbox
		l.inbox = nil
		l.mu.Unlock()
		for _, m := range inbox {
			l.on.Hub.Publish(m)
		}
		l.on.Hub.Deliver(budget)
	}
}

// simClient is a client as the SDK makes one.
type simClient struct {
	w          *sim
	loop       *simLoop
	membership hub.Membership
	keys       *Keys // nil unless subscribed
	offline    bool
	epoch      string
	tracked    map[string]uint64
	data       map[string]string
}

func (c *simClient) act() {
	r := c.w.random
	key := c.w.keys[r.IntN(len(c.w.keys))]
	switch kind := r.IntN(10); {
	case kind == 0:
		c.leave()
		c.offline = r.IntN(2) == 0
	case c.keys == nil:
		c.offline = false
		c.resubscribe()
	case kind < 4:
		delete(c.tracked, key)
		c.command(&protocol.SubRefreshRequest{Type: 2, Untrack: []string{key}})
	default:
		if _, has := c.tracked[key]; !has {
			delete(c.data, key)
			c.tracked[key] = 0
		}
		c.track(key)
	}
}

func (c *simClient) leave() {
	if c.keys != nil {
		c.keys.End()
		c.loop.on.Hub.Remove(c)
		c.keys = nil
	}
}

func (c *simClient) resubscribe() {
	if c.keys != nil || c.offline {
		return
	}
	c.loop.on.Hub.Add(name, c)
	c.keys = NewKeys(&c.loop.on, c, name, c.w.opts)
	epoch := c.keys.Begin(hub.Escaped)
	if c.epoch != "" && c.epoch != epoch {
		for key := range c.tracked {
			c.tracked[key] = 0
		}
	}
	c.epoch = epoch
	c.track(slices.Sorted(maps.Keys(c.tracked))...)
}

func (c *simClient) track(keys ...string) {
	if len(keys) == 0 {
		return
	}
	var b protocol.TrackBatch
	for _, key := range keys {
		b.Items = append(b.Items, &protocol.KeyedItem{Key: key, Version: c.tracked[key]})
	}
	c.command(&protocol.SubRefreshRequest{Type: 1, Track: []*protocol.TrackBatch{&b}})
}

func (c *simClient) command(req *protocol.SubRefreshRequest) {
	var r Result
	if err := c.keys.Check(req); err != nil && req.Type != 1 {
		c.w.t.Fatal(err)
	}
	err := c.keys.Take(req, make([]int64, len(req.Track)), time.Now().UnixNano(), 200+c.w.random.IntN(200), protocol.Protobuf, &r)
	if err != nil {
		c.w.t.Fatal(err)
	}
	for _, p := range r.Items {
		c.got(p.Key, p.Version, string(p.Data))
	}
}

// got takes a value.
func (c *simClient) got(key string, version uint64, data string) {
	at, tracks := c.tracked[key]
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	switch {
	case !tracks:
		c.w.t.Fatalf("got %s, which the client does not track", key)
	case version <= at:
		c.w.t.Fatalf("got version %d of %s after %d", version, key, at)
	case !c.w.said[data]:
		c.w.t.Fatalf("got %q of %s, which never was", data, key)
	case c.w.opts.Versioned && !valid(data, version):
		c.w.t.Fatalf("got %q of %s as version %d", data, key, version)
	}
	c.tracked[key], c.data[key] = version, data
}

func valid(data string, version uint64) bool {
	var key string
	var epoch, v uint64
	_, err := fmt.Sscanf(data, "%2s-%d-%d", &key, &epoch, &v)
	return err == nil && v == version
}

func (c *simClient) Membership() *hub.Membership { return &c.membership }
func (c *simClient) DeliverAll(*hub.Batch) bool  { return false }
func (c *simClient) Deliver(d *hub.Delivery) {
	if !c.keys.Current(d.Message) {
		c.Reset()
	}
}

// Reset implements Owner.
func (c *simClient) Reset() { c.leave() }

// Send implements Owner.
func (c *simClient) Send(d *hub.Delivery, form hub.Form) {
	if d.Pub.Removed {
		if _, tracks := c.tracked[d.Pub.Key]; !tracks {
			c.w.t.Fatalf("got the removal of %s, which the client does not track", d.Pub.Key)
		}
		delete(c.tracked, d.Pub.Key)
		return
	}
	if form&hub.Patched != 0 && string(d.Prev.Data) != c.data[d.Pub.Key] {
		c.w.t.Fatalf("a difference of %s to %q, and the client has %q", d.Pub.Key, d.Prev.Data, c.data[d.Pub.Key])
	}
	c.got(d.Pub.Key, d.Pub.Version, string(d.Pub.Data))
}
