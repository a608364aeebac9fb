// Package lane does the effects of a client in their order: at once if they cannot
// block, and else beside the client's loop.
package lane

import (
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/session"
)

// Lane of one client. It belongs to the client's loop, and takes no more than a pointer,
// and no goroutine, while there is nothing to do. The zero value is ready for use.
type Lane struct{ queue *queue }

// Group is the lanes of all clients of a loop. The exported fields are constant.
type Group struct {
	Loop *loop.Loop
	// Concurrency is how many Concurrent effects of one client may run at a time.
	Concurrency int
	// Workers counts the goroutines that do effects.
	Workers *Tally

	completing *completion // nil: nothing
}

// Client is whose effects are done.
type Client interface {
	session.Executor
	Session() *session.Session
	// Panicked tells that an effect did, on any goroutine but the loop's.
	Panicked(reason any, stack []byte)
}

// Do does an effect at once if it does not block and nothing is before it, and reports
// true; or else queues it. It is called on the loop.
func (l *Lane) Do(g *Group, c Client, e session.Effect) (done bool) {
	traits := e.Traits()
	ahead := traits.Has(session.Continues) && g.completes(c)
	if traits.Has(session.Instant) && (ahead || l.idle()) && e.Execute(c, true) {
		return true
	}
	if l.queue == nil {
		l.queue = new(queue)
	}
	if traits.Has(session.Completes) {
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

// Rest frees the memory of a lane that is idle.
func (l *Lane) Rest() {
	if l.idle() {
		l.queue = nil
	}
}

// idle tells whether everything is done, and nothing waits for its completion.
func (l *Lane) idle() bool { return l.queue == nil || l.queue.awaited == 0 && l.queue.idle() }

// completes tells whether an effect of c is being completed that may be continued.
func (g *Group) completes(c Client) bool {
	d := g.completing
	return d != nil && d.done != nil && d.session == c.Session()
}

// Abort ends a completion that panicked, so that the lane goes on.
func (g *Group) Abort() {
	if d := g.completing; d != nil {
		d.end()
	}
}

// completion takes an effect back to its session. It is a task of the loop.
type completion struct {
	group   *Group
	queue   *queue
	session *session.Session
	effect  session.Effect
	done    chan struct{} // the worker waits for its end, unless it is nil
}

// Run completes the effect.
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
	if d.done != nil {
		close(d.done)
	}
}

// Of is the session that the task is for.
func (d *completion) Of() *session.Session { return d.session }

var _ loop.Task = (*completion)(nil)
