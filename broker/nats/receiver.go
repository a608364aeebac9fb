package nats

import (
	"runtime"
	"sync"
	"sync/atomic"

	natsio "github.com/nats-io/nats.go"

	"github.com/gyrohq/gyro/broker/enginekit"
)

// receiver takes events from the NATS client and hands them to workers, each of which delivers the events of some
// channels in their order. The client has one goroutine for all events; if that waits, the server closes the connection.
// So receiver never waits for a worker: when too many events wait for one, it drops events and calls lose.
type receiver struct {
	messages      chan *natsio.Msg
	workers       []*worker
	deliver       func(ch string, m *natsio.Msg)
	lose          func(match func(ch string) bool)
	channel       func(*natsio.Subscription) (string, bool)
	isCanary      func(*natsio.Msg) bool
	canaryArrived func(*natsio.Msg)

	stop    chan struct{}
	stopped atomic.Bool
	wg      sync.WaitGroup
}

const (
	// receiverSize messages wait for the receiver only if the processor has no time for it.
	receiverSize = 32 << 10
	// overhead is the memory of a message besides its payload and subject, in bytes.
	overhead   = 256
	maxWorkers = 4
	// maxLost bounds the channels with lost events. With more, all channels of the worker count as concerned.
	maxLost   = 1024
	keepQueue = 4096
)

func newReceiver(pendingBytes int) *receiver {
	r := &receiver{messages: make(chan *natsio.Msg, receiverSize), stop: make(chan struct{})}
	n := min(maxWorkers, runtime.GOMAXPROCS(0))
	for range n {
		// One half is for events in the queue, the other for those being delivered.
		r.workers = append(r.workers, &worker{limit: pendingBytes / n / 2, wake: make(chan struct{}, 1)})
	}
	return r
}

func (r *receiver) start() {
	r.wg.Go(r.run)
	for _, w := range r.workers {
		r.wg.Go(func() { w.run(r) })
	}
}

// close ends the delivery: no event is delivered after wg.Wait.
func (r *receiver) close() {
	if !r.stopped.Swap(true) {
		close(r.stop)
	}
}

func (r *receiver) run() {
	for {
		select {
		case m := <-r.messages:
			r.take(m)
		case <-r.stop:
			return
		}
		for range len(r.messages) {
			r.take(<-r.messages)
		}
		for _, w := range r.workers {
			w.flush()
		}
	}
}

func (r *receiver) take(m *natsio.Msg) {
	if r.isCanary(m) {
		r.canaryArrived(m)
		for _, w := range r.workers {
			w.batch = append(w.batch, item{m: m})
		}
		return
	}
	if ch, ok := r.channel(m.Sub); ok { // else the channel was unsubscribed
		w := r.worker(ch)
		w.batch = append(w.batch, item{ch, m})
	}
}

func (r *receiver) worker(ch string) *worker {
	h := uint32(2166136261) // FNV-1a
	for i := range len(ch) {
		h = (h ^ uint32(ch[i])) * 16777619
	}
	return r.workers[h%uint32(len(r.workers))]
}

// lost: events of a channel were lost before the receiver.
func (r *receiver) lost(ch string) {
	w := r.worker(ch)
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

type worker struct {
	limit int // bytes in queue
	wake  chan struct{}
	batch []item // of the receiver's goroutine, not in queue yet
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

// drop: mu is held.
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

func (w *worker) signal() { enginekit.Signal(w.wake) }

func (w *worker) counts() (waiting int, drops uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue), w.drops
}

func reset(items []item) []item {
	if cap(items) > keepQueue {
		return nil
	}
	clear(items)
	return items[:0]
}

func (w *worker) run(r *receiver) {
	var items []item
	for {
		select {
		case <-w.wake:
		case <-r.stop:
			return
		}
		w.mu.Lock()
		items, w.queue, w.bytes = w.queue, items, 0
		lose, all := w.lose, w.all
		w.lose, w.all = nil, false
		w.mu.Unlock()
		for i := range items {
			if r.stopped.Load() {
				return
			}
			it := &items[i]
			if it.ch == "" {
				w.seen.Store(canaryNumber(it.m))
				continue
			}
			r.deliver(it.ch, it.m)
		}
		// The queue was emptied first, so later events are delivered.
		switch {
		case all:
			r.lose(func(ch string) bool { return r.worker(ch) == w })
		case lose != nil:
			r.lose(func(ch string) bool { _, ok := lose[ch]; return ok })
		}
		items = reset(items)
	}
}
