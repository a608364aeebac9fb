// Package loop runs the loops of a node. Everything that concerns a session, its part of the hub, its timers and its
// output happens on its loop, in turns. Each turn takes the tasks and messages that were posted, fires timers, and
// flushes every touched session once, so that the whole output of the turn leaves in one write.
package loop

import (
	"runtime"
	"sync"
	"time"

	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/poll"
	"github.com/gyrohq/gyro/internal/sendqueue"
)

// Task is work for a loop.
type Task interface{ Run() }

// Func is a function as a Task.
type Func func()

// Run calls f.
func (f Func) Run() { f() }

// Flusher has output to flush when the turn ends.
type Flusher interface{ Flush() }

type item struct {
	task Task
	msg  *hub.Message
}

const (
	// maxMessages is how many messages may wait for a loop before publishers wait: a node whose clients cannot take more
	// slows its publishers down.
	maxMessages = 1024
	// A turn has a budget of deliveries for each message that is under way, within these bounds. A subscriber costs 1,
	// and 1 more for each 16 messages; a write takes 4 to 8 us. Short turns let publishers have their answers and
	// publish more, which leaves in the same writes. But every turn makes the frames of its messages again, and must
	// deliver enough to be worth that.
	slicePerMessage = 8
	minSlice        = 128
	maxSlice        = 512
	// ticks is how many timers, mostly pings, a turn fires: after so many, the first pongs are there, and their
	// connections are still in the processor's cache.
	ticks = 128
	// keepItems is the largest inbox whose memory is kept for the next turn.
	keepItems = 2 * maxMessages
)

// Loop owns sessions. Any goroutine may call Post, PostMessage and Close, and only tasks of the loop the rest.
type Loop struct {
	// OnPanic, if set before Run, is told the Task, Timed, Resumer, Flusher, hub.Subscriber or transport.Watcher that
	// panicked; the turn goes on with the next one. OnPanic must not panic. Without it, a panic ends the process.
	OnPanic func(subject, reason any, stack []byte)

	// OnTurn, if set before Run, is called at the end of each turn.
	OnTurn func()

	hub     *hub.Hub
	pool    sendqueue.Pool
	wheel   wheel
	poller  *poll.Poller // nil until there is a socket
	buffer  []byte       // for reading from sockets
	busy    bool         // the next turn has work, even if the inbox is empty
	more    bool         // there is more to deliver
	start   time.Time
	now     int64
	dirty   []Flusher
	phases  phases
	input   input
	again   []Resumer
	next    func() bool // serve
	turning turning

	mu         sync.Mutex
	inbox      []item
	messages   int // in the inbox
	backlog    int // messages that were taken from the inbox and not delivered to all
	closed     bool
	mayPublish sync.Cond // publishers may go on, or the loop closed

	wake chan struct{}
	done chan struct{}
}

// New returns a loop, which runs once Run is called.
func New() *Loop {
	l := &Loop{
		start: time.Now(),
		wake:  make(chan struct{}, 1),
		done:  make(chan struct{}),
	}
	l.hub, l.next = hub.New(&l.pool.Arena), l.serve
	l.now = l.Clock()
	l.mayPublish.L = &l.mu
	return l
}

// Clock returns Unix nanoseconds that only the monotonic clock moves: a step of the system's clock neither stops pings
// nor lets all deadlines pass at once.
func (l *Loop) Clock() int64 { return l.start.UnixNano() + int64(time.Since(l.start)) }

// Post queues a task, in order with other tasks, without blocking. It reports false if the loop is closed.
func (l *Loop) Post(t Task) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.add(item{task: t})
}

// PostMessage queues a message, behind others of its channel, and waits while the loop has too many to deliver, so a
// loop must not call it. Tasks may overtake the message.
func (l *Loop) PostMessage(m *hub.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.messages+l.backlog >= maxMessages && !l.closed {
		l.mayPublish.Wait()
	}
	if l.add(item{msg: m}) {
		l.messages++
	}
}

func (l *Loop) add(it item) bool {
	if l.closed {
		return false
	}
	l.inbox = append(l.inbox, it)
	if len(l.inbox) == 1 {
		l.signal()
	}
	return true
}

func (l *Loop) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Hub is the loop's slice of the hub.
func (l *Loop) Hub() *hub.Hub { return l.hub }

// Pool is shared by the output queues of the loop's sessions.
func (l *Loop) Pool() *sendqueue.Pool { return &l.pool }

// Now is the begin of this turn, in nanoseconds since the Unix epoch.
func (l *Loop) Now() int64 { return l.now }

// Schedule sets the deadline of t, in nanoseconds since the Unix epoch; 0 clears it.
func (l *Loop) Schedule(t Timed, at int64) { l.wheel.set(t, at) }

// Dirty queues f to be flushed when the turn ends. Callers queue it once per turn.
func (l *Loop) Dirty(f Flusher) { l.dirty = append(l.dirty, f) }

// Close ends the loop after everything that was posted before, and delivers messages that wait for their window.
func (l *Loop) Close() {
	l.mu.Lock()
	l.closed = true
	l.mayPublish.Broadcast()
	l.mu.Unlock()
	l.signal()
	<-l.done
}

// Run runs the loop until Close.
func (l *Loop) Run() {
	defer close(l.done)
	if l.OnPanic != nil {
		l.hub.OnPanic = func(s hub.Subscriber, reason any, stack []byte) { l.OnPanic(s, reason, stack) }
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	defer func() {
		if l.poller != nil {
			l.poller.Close()
		}
	}()
	var batch []item
	for {
		var closed bool
		batch, closed = l.take(batch)
		if len(batch) == 0 && (!l.busy || closed && !l.more) {
			switch {
			case !closed:
				l.sleep(timer)
			case l.hub.Next() == 0:
				return
			default:
				l.hub.Flush()
			}
		}
		if len(batch) == 0 {
			// Let goroutines that are ready to post do so first: their messages then leave in one write per connection.
			runtime.Gosched()
			batch, _ = l.take(batch)
		}
		l.now = l.Clock()
		l.pool.Now = l.now
		l.turn(batch)
		clear(batch)
		if cap(batch) > keepItems {
			batch = nil
		}
	}
}

func (l *Loop) relieve() {
	pending := l.hub.Pending()
	if pending == 0 && l.backlog == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	full := l.messages+l.backlog >= maxMessages
	l.backlog = pending
	if full && l.messages+l.backlog < maxMessages {
		l.mayPublish.Broadcast()
	}
}

func (l *Loop) take(spare []item) (batch []item, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch, l.inbox = l.inbox, spare[:0]
	l.backlog += l.messages
	l.messages = 0
	return batch, l.closed
}

// sleep waits for a post, the next timer, or the end of a window, which may be much shorter than a tick of the wheel.
func (l *Loop) sleep(timer *time.Timer) {
	next := l.wheel.next()
	if due := l.hub.Next(); due != 0 && (next == 0 || due < next) {
		next = due
	}
	if next == 0 {
		<-l.wake
		return
	}
	wait := next - l.Clock()
	if wait <= 0 {
		return
	}
	timer.Reset(time.Duration(wait))
	select {
	case <-l.wake:
	case <-timer.C:
	}
}
