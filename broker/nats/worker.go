package nats

import (
	"runtime"
	"sync"
	"sync/atomic"

	natsio "github.com/nats-io/nats.go"
)

// intake takes events from the client as they come and hands them to workers, each
// of which delivers the events of some channels in their order. The client has one
// goroutine that must not wait, or else the server gives the connection up: so intake
// never waits for a worker, and when too much waits there it drops events, and says so.
type intake struct {
	messages chan *natsio.Msg
	workers  []*worker
	deliver  func(ch string, m *natsio.Msg)
	lose     func(match func(ch string) bool)
	channel  func(*natsio.Subscription) (string, bool)
	// isCanary tells the canaries apart; sight is called when one comes in.
	isCanary func(*natsio.Msg) bool
	sight    func(*natsio.Msg)

	stop    chan struct{}
	stopped atomic.Bool
	wg      sync.WaitGroup
}

const (
	// intakeSize is how many messages the intake may be behind. That it is behind so
	// far takes a machine without a moment for it.
	intakeSize = 32 << 10
	// overhead is what a message takes beyond its payload.
	overhead = 256
	maxLanes = 4
	// maxLost is how many channels are told apart when events of many get lost.
	maxLost = 1024
	// keepQueue is how long a queue may be to be used again.
	keepQueue = 4096
)

func newIntake(pendingBytes int) *intake {
	in := &intake{messages: make(chan *natsio.Msg, intakeSize), stop: make(chan struct{})}
	n := min(maxLanes, runtime.GOMAXPROCS(0))
	for range n {
		// Half of it waits in the queue, half of it is being delivered.
		in.workers = append(in.workers, &worker{limit: pendingBytes / n / 2, wake: make(chan struct{}, 1)})
	}
	return in
}

func (in *intake) start() {
	in.wg.Go(in.run)
	for _, l := range in.workers {
		in.wg.Go(func() { l.run(in) })
	}
}

// close ends the delivery: no event is delivered after wg.Wait.
func (in *intake) close() {
	if !in.stopped.Swap(true) {
		close(in.stop)
	}
}

func (in *intake) run() {
	for {
		select {
		case m := <-in.messages:
			in.take(m)
		case <-in.stop:
			return
		}
		for range len(in.messages) {
			in.take(<-in.messages)
		}
		for _, l := range in.workers {
			l.flush()
		}
	}
}

func (in *intake) take(m *natsio.Msg) {
	if in.isCanary(m) {
		in.sight(m)
		for _, l := range in.workers {
			l.batch = append(l.batch, item{m: m})
		}
		return
	}
	if ch, ok := in.channel(m.Sub); ok { // else it was unsubscribed
		l := in.worker(ch)
		l.batch = append(l.batch, item{ch, m})
	}
}

func (in *intake) worker(ch string) *worker {
	h := uint32(2166136261) // FNV-1a
	for i := range len(ch) {
		h = (h ^ uint32(ch[i])) * 16777619
	}
	return in.workers[h%uint32(len(in.workers))]
}

// lost says that events of a channel got lost in front of the intake.
func (in *intake) lost(ch string) {
	l := in.worker(ch)
	l.mu.Lock()
	l.drop(ch)
	l.mu.Unlock()
	l.signal()
}

// item is an event, or a canary if it has no channel.
type item struct {
	ch string
	m  *natsio.Msg
}

// worker delivers the events of some channels.
type worker struct {
	limit int // bytes in queue
	wake  chan struct{}
	batch []item // of the intake's goroutine, not in queue yet
	seen  atomic.Uint64

	mu    sync.Mutex
	queue []item
	bytes int
	lose  map[string]struct{} // channels of dropped events
	drops uint64
	all   bool // too many to tell
}

// flush moves the batch into the queue, as far as there is room.
func (l *worker) flush() {
	if len(l.batch) == 0 {
		return
	}
	l.mu.Lock()
	for _, it := range l.batch {
		size := len(it.m.Data) + len(it.m.Subject) + overhead
		if it.ch != "" && l.bytes+size > l.limit && l.bytes > 0 {
			l.drop(it.ch)
			continue
		}
		l.bytes += size
		l.queue = append(l.queue, it)
	}
	l.mu.Unlock()
	l.batch = reset(l.batch)
	l.signal()
}

// drop remembers that an event of the channel got lost. mu is held.
func (l *worker) drop(ch string) {
	l.drops++
	switch {
	case l.all:
	case len(l.lose) >= maxLost:
		l.all, l.lose = true, nil
	case l.lose == nil:
		l.lose = map[string]struct{}{ch: {}}
	default:
		l.lose[ch] = struct{}{}
	}
}

func (l *worker) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *worker) counts() (waiting int, drops uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue), l.drops
}

// reset empties a slice for its next use.
func reset(items []item) []item {
	if cap(items) > keepQueue {
		return nil
	}
	clear(items)
	return items[:0]
}

// run delivers until the intake is closed.
func (l *worker) run(in *intake) {
	var items []item
	for {
		select {
		case <-l.wake:
		case <-in.stop:
			return
		}
		l.mu.Lock()
		items, l.queue, l.bytes = l.queue, items, 0
		lose, all := l.lose, l.all
		l.lose, l.all = nil, false
		l.mu.Unlock()
		for i := range items {
			if in.stopped.Load() {
				return
			}
			it := &items[i]
			if it.ch == "" {
				l.seen.Store(canaryNumber(it.m))
				continue
			}
			in.deliver(it.ch, it.m)
		}
		// The queue was emptied before: what came since is delivered.
		switch {
		case all:
			in.lose(func(ch string) bool { return in.worker(ch) == l })
		case lose != nil:
			in.lose(func(ch string) bool { _, ok := lose[ch]; return ok })
		}
		items = reset(items)
	}
}
