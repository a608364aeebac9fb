package client

import (
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/session"
)

// workQueue does the effects of one client in their order: on its loop if they cannot block, else on a goroutine, which
// exists only while there is work. It belongs to the loop. The zero value is ready for use.
type workQueue struct{ queue *effectQueue }

// workGroup is shared by the work queues of a loop.
type workGroup struct {
	Loop *loop.Loop
	// Concurrency bounds the Concurrent effects of one client.
	Concurrency int
	Workers     *tally

	completing *completion // the one that runs on the loop now; nil: none
}

// worker is the client that has a work queue.
type worker interface {
	effect.Executor
	Session() *session.Session
	// Panicked is told of a panic on a goroutine of the queue.
	Panicked(reason any, stack []byte)
}

// Do does an effect at once if that cannot block and no other comes first, and reports true. Otherwise it queues the
// effect. It is called on the loop.
func (l *workQueue) Do(g *workGroup, c worker, e effect.Effect) (done bool) {
	traits := e.Traits()
	ahead := traits.Has(effect.Continues) && (g.completes(c) || l.held())
	if traits.Has(effect.Instant) && (ahead || l.idle()) && e.Execute(c, true) {
		return true
	}
	if l.queue == nil {
		l.queue = new(effectQueue)
	}
	if traits.Has(effect.Completes) {
		l.queue.awaited++
	}
	switch {
	case ahead:
		l.queue.pushAhead(e)
	case l.queue.push(e, g.Concurrency):
		l.queue.work(g, c)
	}
	return false
}

// Rest frees the memory of an idle queue.
func (l *workQueue) Rest() {
	if l.idle() {
		l.queue = nil
	}
}

// Hold(true) keeps the worker of the effect that completes now, and so all effects behind it, until Hold(false).
func (l *workQueue) Hold(on bool) {
	q := l.queue
	if q == nil {
		return // the effect was done on the loop, and none waits
	}
	q.hold = on
	if !on && q.held != nil {
		close(q.held)
		q.held = nil
	}
}

// held: a worker waits for Hold(false).
func (l *workQueue) held() bool { return l.queue != nil && l.queue.held != nil }

// idle: all effects are done and completed.
func (l *workQueue) idle() bool { return l.queue == nil || l.queue.awaited == 0 && l.queue.idle() }

// completes: the loop is completing an effect of c that others may continue.
func (g *workGroup) completes(c worker) bool {
	d := g.completing
	return d != nil && d.done != nil && d.session == c.Session()
}

// Abort ends a completion that panicked. The queue goes on.
func (g *workGroup) Abort() {
	if d := g.completing; d != nil {
		d.end()
	}
}

// completion is the task that takes an effect back to its session.
type completion struct {
	group   *workGroup
	queue   *effectQueue
	session *session.Session
	effect  effect.Effect
	done    chan struct{} // closed at the end; nil if the worker does not wait for that
}

func (d *completion) Run() {
	d.group.completing = d
	d.queue.awaited--
	d.session.Complete(d.effect)
	d.end()
}

func (d *completion) end() {
	if d.group.completing != d {
		return // aborted
	}
	d.group.completing = nil
	switch {
	case d.done == nil:
	case d.queue.hold:
		d.queue.held = d.done
	default:
		close(d.done)
	}
}

func (d *completion) Of() *session.Session { return d.session }

var _ loop.Task = (*completion)(nil)
