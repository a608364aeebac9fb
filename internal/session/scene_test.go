package session_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/protocol"
)

// violation is what the judges panic with.
type violation string

// scene is what simulated worlds have in common: chance, virtual time, and connections whose effects take
// their time.
type scene struct {
	random  *rand.Rand
	now     int64
	lines   []*line // also those that have ended and whose effects are not done yet
	log     *[]string
	counter int
	// calm is the end: no more faults. An honest world has none at any time, so its
	// clients must never be told that they lost something.
	calm, honest bool
	// quick is the percentage of effects that are done at once, if they may be.
	quick int
}

// line is a connection as the scene sees it: the session, and the effects that it started.
type line struct {
	env   *fakeEnv
	conn  *fakeConn
	id    string
	queue []effect.Effect
	done  []effect.Effect
	// over is set when the client has left the connection.
	over bool
	// execute does what the node would, and reports whether the effect is to be completed.
	execute func(effect.Effect) bool
	// waits, if set, tells which effects cannot be done at once.
	waits func(effect.Effect) bool
	// read lets the client take what has arrived.
	read func()
}

func newScene(seed uint64, log *[]string) scene {
	r := rand.New(rand.NewPCG(seed, 0))
	return scene{
		random: r, log: log, now: 1_000_000 * int64(time.Second), honest: r.IntN(3) == 0,
		quick: []int{0, 50, 100}[r.IntN(3)],
	}
}

// open adds a line whose effects wait for work, unless they are done at once.
func (w *scene) open(l *line) {
	l.env.do = func(e effect.Effect) bool {
		sortItems(e)
		if len(l.queue) == 0 && w.random.IntN(100) < w.quick && (l.waits == nil || !l.waits(e)) {
			w.traceEffect(l, "does at once", e)
			l.execute(e)
			return true
		}
		l.queue = append(l.queue, e)
		return false
	}
	w.lines = append(w.lines, l)
}

// sortItems takes the order of Go's maps out of a run.
func sortItems(e effect.Effect) {
	switch e := e.(type) {
	case *effect.Attach:
		slices.SortFunc(e.Items, func(a, b *effect.AttachItem) int { return cmp.Compare(a.Channel, b.Channel) })
	case *effect.Close:
		slices.SortFunc(e.Items, func(a, b effect.DetachItem) int { return cmp.Compare(a.Channel, b.Channel) })
	}
}

func (w *scene) trace(format string, a ...any) {
	if w.log != nil {
		*w.log = append(*w.log, fmt.Sprintf(format, a...))
	}
}

func (w *scene) traceEffect(l *line, what string, e effect.Effect) {
	if _, renewal := e.(*effect.Renew); w.log != nil && !renewal {
		w.trace("%s %s %s", l.id, what, formatEffect(e))
	}
}

// work does a part of one connection's effects: it executes the next one, in their
// order, or completes one that was executed, in any order.
func (w *scene) work() {
	r := w.random
	for _, i := range r.Perm(len(w.lines)) {
		l := w.lines[i]
		if l.env.held {
			continue
		}
		if len(l.done) > 0 && (len(l.queue) == 0 || r.IntN(2) == 0) {
			n := r.IntN(len(l.done))
			e := l.done[n]
			l.done = append(l.done[:n], l.done[n+1:]...)
			w.traceEffect(l, "completes", e)
			l.env.s.Complete(e)
			return
		}
		if len(l.queue) > 0 {
			e := l.queue[0]
			l.queue = l.queue[1:]
			w.traceEffect(l, "executes", e)
			if l.execute(e) {
				l.done = append(l.done, e)
			}
			return
		}
	}
}

// working reports whether a connection has something to do.
func (w *scene) working() bool {
	return slices.ContainsFunc(w.lines, func(l *line) bool { return len(l.queue)+len(l.done) > 0 || l.env.dirty || l.env.again })
}

// turn ends a turn of the loops, now and then: sessions flush, clients read.
func (w *scene) turn() {
	if !w.calm && w.random.IntN(4) == 0 {
		return
	}
	for _, l := range w.lines {
		l.env.flush()
		l.env.resume()
	}
	for i := 0; i < len(w.lines); i++ {
		w.lines[i].read()
	}
	w.lines = slices.DeleteFunc(w.lines, func(l *line) bool { return l.over && len(l.queue)+len(l.done) == 0 })
}

// advance lets time pass.
func (w *scene) advance(d time.Duration) {
	end := w.now + int64(d)
	for {
		var next *line
		for _, l := range w.lines {
			if l.env.at != 0 && l.env.at <= end && (next == nil || l.env.at < next.env.at) {
				next = l
			}
		}
		if next == nil {
			break
		}
		w.now = max(w.now, next.env.at)
		next.env.at = 0
		next.env.s.Tick()
	}
	w.now = end
}

// fault is an error once in n times.
func (w *scene) fault(n int) error {
	if w.calm || w.random.IntN(n) > 0 {
		return nil
	}
	return []error{
		protocol.ErrorTooManyRequests, protocol.ErrorPermissionDenied, errors.New("boom"), protocol.DisconnectForceReconnect,
	}[w.random.IntN(4)]
}

// simulate lives a world through. A panic becomes an error, so that the test can name the seed: with a stack,
// unless it is a judge's.
func (w *scene) simulate(run func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case violation:
			err = errors.New(string(r))
		default:
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return run()
}
