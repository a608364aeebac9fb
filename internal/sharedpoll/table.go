package sharedpoll

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/observe"
)

type Config struct {
	Loops int
	Post  func(loop int, m *hub.Message)
	// Check returns an error for data that clients of a channel could not read. checked is for channel.Publication.
	Check func(ch string, data []byte) (checked bool, err error)
	// Concurrency is how many calls may be under way; more wait.
	Concurrency int
	// Polled is the Observer's method, or nil. Panicked is told of panics of the application.
	Polled   func(p *observe.Polled)
	Panicked func(reason any, stack []byte)
	Log      *slog.Logger
}

// Table has the shared poll channels of a node. Any goroutine may use it.
type Table struct {
	post1    func(loop int, m *hub.Message)
	checks   func(ch string, data []byte) (checked bool, err error)
	polled   func(p *observe.Polled)
	panicked func(reason any, stack []byte)
	log      *slog.Logger
	loops    int
	slots    chan struct{}

	ctx   context.Context // ends with the table
	end   context.CancelFunc
	calls sync.WaitGroup

	size     atomic.Int64 // of channels
	mu       sync.Mutex
	channels map[string]*Channel
}

var errPanic = errors.New("the Poll function panicked")

// New returns an empty table.
func New(cfg Config) *Table {
	t := &Table{
		post1: cfg.Post, checks: cfg.Check, polled: cfg.Polled, panicked: cfg.Panicked, log: cfg.Log,
		loops: cfg.Loops, slots: make(chan struct{}, cfg.Concurrency), channels: make(map[string]*Channel),
	}
	t.ctx, t.end = context.WithCancel(context.Background())
	return t
}

// Close ends and awaits all calls.
func (t *Table) Close() {
	t.end()
	t.mu.Lock()
	for _, c := range t.channels {
		c.close()
		if c.linger != nil {
			c.linger.Stop()
		}
	}
	t.mu.Unlock()
	t.calls.Wait()
}

// Acquire counts a subscriber until Release. opts replaces the channel's options.
func (t *Table) Acquire(ch string, opts *channel.SharedPoll) *Channel {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.channels[ch]
	if c == nil {
		c = &Channel{name: ch, table: t}
		c.state = state{opts: opts, keys: make(map[string]*entry)}
		if !opts.Versioned {
			c.state.epoch = rand.Text()[:8]
		}
		t.channels[c.name] = c
		t.size.Add(1)
	}
	if c.subscribers++; c.linger != nil {
		c.linger.Stop()
		c.linger = nil
	}
	c.mu.Lock()
	c.state.opts = opts
	c.mu.Unlock()
	return c
}

// epochMemory is how long a channel whose epoch has changed stays at least. Its subscribers begin anew then; if the
// channel had forgotten the epoch when they come back, they would begin anew again and again.
const epochMemory = time.Minute

// Release undoes an Acquire. The channel stays for the time that its options say.
func (t *Table) Release(c *Channel) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.subscribers--; c.subscribers > 0 {
		return
	}
	c.mu.Lock()
	linger := cmp.Or(c.state.opts.Linger, channel.DefaultPollLinger)
	if c.state.generation > 0 {
		linger = max(linger, epochMemory)
	}
	c.mu.Unlock()
	if linger <= 0 {
		t.forget(c)
		return
	}
	c.linger = time.AfterFunc(linger, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if c.subscribers == 0 && t.channels[c.name] == c {
			t.forget(c)
		}
	})
}

func (t *Table) forget(c *Channel) {
	delete(t.channels, c.name)
	t.size.Add(-1)
	c.close()
}

// Find returns nil without subscribers. It costs a load if there are no channels.
func (t *Table) Find(ch string) *Channel {
	if t.size.Load() == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.channels[ch]
}

// Size is the number of channels, and of their keys with trackers.
func (t *Table) Size() (channels, keys int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.channels {
		c.mu.Lock()
		keys += len(c.state.live)
		c.mu.Unlock()
	}
	return len(t.channels), keys
}

// Notify implements channel.Polls.
func (t *Table) Notify(ch string, keys ...string) (tracked int) {
	if c := t.Find(ch); c != nil {
		tracked = c.Notify(keys)
	}
	return tracked
}

func (t *Table) check(ch string, given []channel.KeyValue) []value {
	values := make([]value, len(given))
	for i := range given {
		v := &values[i]
		v.KeyValue = given[i]
		if v.Removed {
			continue
		}
		if v.checked, v.bad = t.checks(ch, v.Data); len(v.Data) == 0 {
			v.bad = errNoData
		}
		v.hash = maphash.Bytes(seed, v.Data)
	}
	return values
}

func (t *Table) post(ch string, generation uint32, c *change) {
	t.send(c.loops, func(m *hub.Message) {
		m.Channel, m.Keyed, m.Round, m.Pub, m.Prev = ch, true, generation, c.pub, c.prev
	})
}

func (t *Table) reset(ch, epoch string, generation uint32) {
	t.log.Info("versions of a shared poll channel begin anew, as the epoch has changed: its subscribers subscribe again", "channel", ch, "epoch", epoch)
	t.send(^uint64(0), func(m *hub.Message) {
		m.Channel, m.Kind, m.Round, m.Pub = ch, hub.KindCheck, generation, new(channel.Publication)
	})
}

func (t *Table) send(loops uint64, fill func(m *hub.Message)) {
	m := hub.NewMessage()
	fill(m)
	n := 0
	for i := range t.loops {
		if loops&bit(i) != 0 {
			n++
		}
	}
	m.Share(n)
	for i := range t.loops {
		if loops&bit(i) != 0 {
			t.post1(i, m)
		}
	}
}

func (t *Table) observe(p *observe.Polled) {
	if t.polled != nil {
		t.polled(p)
	}
}

// failed logs a call without an answer, ignored a value that is not taken.
func (t *Table) failed(ch string, keys int, err error) {
	t.log.Error("polling the keys of a shared poll channel failed: they stay as they are", "channel", ch, "keys", keys, "error", err)
}

func (t *Table) ignored(ch string, bad odd) {
	t.log.Warn("a value of a shared poll channel is ignored", "channel", ch, "key", bad.key, "error", bad.why)
}

func (t *Table) Loops() int { return t.loops }
