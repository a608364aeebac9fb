package loop

import "github.com/gyrohq/gyro/internal/sendqueue"

// A turn bounds the commands that it dispatches: their number for each client, and their time for all together. A client
// that sent more goes on in a later turn, behind the others.
const (
	share = 64
	// inputTime bounds, in nanoseconds, each part of a turn that dispatches commands: tasks, sockets, and sessions that
	// go on. A part ends early if the replies of the turn have sendqueue.MaxLarge bytes of large frames.
	inputTime = int64(2e6)
	// serveCost is the cost of a task, socket or session without its commands, in commands. The clock is read every
	// lookAfter commands.
	serveCost = 8
	lookAfter = 64
)

// Resumer goes on to dispatch the commands that its client has sent.
type Resumer interface{ Resume() }

type input struct {
	left  int   // commands that may yet be dispatched for the client that is served
	spent int   // commands since the clock was read
	until int64 // the end of the time; 0 before the clock was read
	over  bool  // the time is up
}

// Allowance is how many commands may be dispatched for the client that is served now, for its code to count down.
func (l *Loop) Allowance() *int { return &l.input.left }

// Again queues r to be resumed, in this turn or a later one.
func (l *Loop) Again(r Resumer) { l.again = append(l.again, r) }

func (l *Loop) part() { l.input = input{left: share} }

// serve gives the next task, socket or session its share; false: the time is up.
func (l *Loop) serve() bool {
	in := &l.input
	if in.over {
		in.left = 0
		return false
	}
	in.spent += serveCost + min(max(share-in.left, 0), lookAfter)
	in.left = share
	if in.spent >= lookAfter {
		in.spent = 0
		l.look()
	}
	if l.pool.Arena.Large() >= sendqueue.MaxLarge {
		in.over, in.left = true, 0
	}
	return !in.over
}

func (l *Loop) look() {
	in, now := &l.input, l.Clock()
	switch {
	case in.until == 0:
		in.until = now + inputTime
	case now >= in.until:
		in.over, in.left = true, 0
	}
}

func (l *Loop) goOn() {
	l.part()
	for n := len(l.again); n > 0 && l.serve(); n-- {
		r := l.again[0]
		l.again[0] = nil
		l.again = l.again[1:]
		l.turning.subject = r
		r.Resume()
	}
	l.turning.subject = nil
	if len(l.again) == 0 {
		l.again = nil
	}
}
