package nats

import (
	"runtime"
	"sync"
	"sync/atomic"

	natsio "github.com/nats-io/nats.go"
)

// intake takes events from the NATS client as they come and hands them to workers, each of
// which delivers the events of some channels in their order. The client has one goroutine
// for all events; if that waits, the server closes the connection. So intake never waits for
// a worker. When too many events wait for a worker, it drops events and calls lose.
type intake struct {
	messages chan *natsio.Msg
	workers  []*worker
	deliver  func(ch string, m *natsio.Msg)
	lose     func(match func(ch string) bool)
	channel  func(*natsio.Subscription) (string, bool)
	// isCanary tells whether a message is a canary; sight is called for each canary.
	isCanary func(*natsio.Msg) bool
	sight    func(*natsio.Msg)

	stop    chan struct{}
	stopped atomic.Bool
	wg      sync.WaitGroup
}

const (
	// intakeSize is how many messages wait for the intake. So many wait only if the
	// processor has no time for it.
	intakeSize = 32 << 10
	// overhead is the memory of a message besides its payload and subject, in bytes.
	overhead   = 256
	maxWorkers = 4
	// maxLost is how many channels with lost events a worker remembers. With more, all of
	// its channels count as concerned.
	maxLost = 1024
	// keepQueue is the capacity up to which a queue is used again.
	keepQueue = 4096
)

func newIntake(pendingBytes int) *intake {
	in := &intake{messages: make(chan *natsio.Msg, intakeSize), stop: make(chan struct{})}
	n := min(maxWorkers, runtime.GOMAXPROCS(0))
	for range n {
		// One half is for events in the queue, the other for those being delivered.
		in.workers = append(in.workers, &worker{limit: pendingBytes / n / 2, wake: make(chan struct{}, 1)})
	}
	return in
}

func (in *intake) start() {
	in.wg.Go(in.run)
	for _, w := range in.workers {
		in.wg.Go(func() { w.run(in) })
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
		for _, w := range in.workers {
			w.flush()
		}
	}
}

func (in *intake) take(m *natsio.Msg) {
	if in.isCanary(m) {
		in.sight(m)
		for _, w := range in.workers {
			w.batch = append(w.batch, item{m: m})
		}
		return
	}
	if ch, ok := in.channel(m.Sub); ok { // else the channel was unsubscribed
		w := in.worker(ch)
		w.batch = append(w.batch, item{ch, m})
	}
}

func (in *intake) worker(ch string) *worker {
	h := uint32(2166136261) // FNV-1a
	for i := range len(ch) {
		h = (h ^ uint32(ch[i])) * 16777619
	}
	return in.workers[h%uint32(len(in.workers))]
}

// lost notes that events of a channel were lost before the intake.
func (in *intake) lost(ch string) {
	w := in.worker(ch)
	w.mu.Lock()
	w.drop(ch)
	w.mu.Unlock()
	w.signal()
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
	all   bool // more than maxLost channels
}

// flush moves the batch into the queue, as far as there is room.
func (w *worker) flush() {
	if len(w.batch) == 0 {
		return
	}
	w.mu.Lock()
	for _, it := range w.batch {
		size := len(it.m.Data) + len(it.m.Subject) + overhead
		if it.ch != "" && w.bytes+size > w.limit && w.bytes > 0 {
			w.drop(it.ch)
			continue
		}
		w.bytes += size
		w.queue = append(w.queue, it)
	}
	w.mu.Unlock()
	w.batch = reset(w.batch)
	w.signal()
}

// drop remembers that an event of the channel got lost. mu is held.
func (w *worker) drop(ch string) {
	w.drops++
	switch {
	case w.all:
	case len(w.lose) >= maxLost:
		w.all, w.lose = true, nil
	case w.lose == nil:
		w.lose = map[string]struct{}{ch: {}}
	default:
		w.lose[ch] = struct{}{}
	}
}

func (w *worker) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *worker) counts() (waiting int, drops uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue), w.drops
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
func (w *worker) run(in *intake) {
	var items []item
	for {
		select {
		case <-w.wake:
		case <-in.stop:
			return
		}
		w.mu.Lock()
		items, w.queue, w.bytes = w.queue, items, 0
		lose, all := w.lose, w.all
		w.lose, w.all = nil, false
		w.mu.Unlock()
		for i := range items {
			if in.stopped.Load() {
				return
			}
			it := &items[i]
			if it.ch == "" {
				w.seen.Store(canaryNumber(it.m))
				continue
			}
			in.deliver(it.ch, it.m)
		}
		// The queue was emptied first: events that came later are delivered.
		switch {
		case all:
			in.lose(func(ch string) bool { return in.worker(ch) == w })
		case lose != nil:
			in.lose(func(ch string) bool { _, ok := lose[ch]; return ok })
		}
		items = reset(items)
	}
}
