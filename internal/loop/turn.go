package loop

import "runtime/debug"

// turning is how far a turn has come, to go on there after a panic.
type turning struct {
	batch   []item
	at      int // the next item of batch
	stage   int // the stage that is under way
	flushed int // elements of dirty that were flushed
	subject any // the task, timer or other subject that runs now, for Loop.OnPanic
}

var stages = [...]func(*Loop){(*Loop).tasks, (*Loop).sockets, (*Loop).goOn, (*Loop).timers, (*Loop).deliver, (*Loop).flush}

func (l *Loop) turn(batch []item) {
	l.turning = turning{batch: batch}
	for !l.advance() {
		// Go on after a panic.
	}
	l.turning = turning{}
	if l.more || len(l.again) > 0 { // a flush may ask to be resumed
		l.busy = true
	}
	// The next turn makes the frames of messages that are under way again. That costs less than an arena that grows for
	// as long as there is more to deliver.
	l.hub.Forget()
	l.pool.Arena.Reset()
	l.relieve()
	if l.OnTurn != nil {
		l.OnTurn()
	}
}

// advance does the stages that are left, or reports false after a panic.
func (l *Loop) advance() (done bool) {
	if l.OnPanic != nil {
		defer l.contain()
	}
	t := &l.turning
	for t.stage < len(stages) {
		stages[t.stage](l)
		t.stage++
	}
	return true
}

func (l *Loop) contain() {
	if r := recover(); r != nil {
		subject := l.turning.subject
		l.turning.subject = nil
		l.OnPanic(subject, r, debug.Stack())
	}
}

func (l *Loop) tasks() {
	t := &l.turning
	if t.at == 0 {
		l.busy = false
		l.part()
	}
	for t.at < len(t.batch) {
		it := &t.batch[t.at]
		t.at++
		if it.msg != nil {
			l.hub.Publish(it.msg)
			continue
		}
		l.serve()
		t.subject = it.task
		it.task.Run()
	}
	t.subject = nil
}

func (l *Loop) sockets() {
	l.part()
	if l.poller != nil && l.poller.Poll(l.next, &l.turning.subject) {
		l.busy = true
	}
	l.turning.subject = nil
}

func (l *Loop) timers() {
	if l.wheel.advance(l.now, ticks, &l.turning.subject) {
		l.busy = true
	}
	l.turning.subject = nil
}

func (l *Loop) deliver() {
	l.hub.Advance(l.now)
	l.more = l.hub.Deliver(min(max(slicePerMessage*l.hub.Pending(), minSlice), maxSlice))
}

func (l *Loop) flush() {
	// A flush can make others dirty (a lost connection unsubscribes), never itself.
	t := &l.turning
	for t.flushed < len(l.dirty) {
		f := l.dirty[t.flushed]
		t.flushed++
		t.subject = f
		f.Flush()
	}
	clear(l.dirty)
	l.dirty = l.dirty[:0]
}
