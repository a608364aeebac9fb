package loop

// A turn has an allowance for what clients sent: each socket, task or session that is
// served may have so many commands dispatched, and together they may take so long.
// Who has more to say goes on in a later turn, behind the others.
const (
	// share is how many commands are dispatched in a row for one client.
	share = 64
	// inputTime bounds each of the three parts of a turn that dispatch commands: tasks,
	// sockets, and sessions that go on. In nanoseconds.
	inputTime = int64(2e6)
	// serveCost is what serving somebody costs beside commands, in commands; after
	// lookAfter commands the clock is looked at.
	serveCost = 8
	lookAfter = 64
)

// Resumer goes on with what its client sent.
type Resumer interface{ Resume() }

// input is the allowance of a part of a turn.
type input struct {
	left  int   // of the share of the one that is served
	spent int   // commands since the clock was looked at
	until int64 // when the time is up; 0 before the clock was looked at
	over  bool  // it is
}

// Allowance is what may be dispatched for the client that is served now. Who
// dispatches counts it down.
func (l *Loop) Allowance() *int { return &l.input.left }

// Again has r resumed in this turn or a later one, when it is its turn.
func (l *Loop) Again(r Resumer) { l.again = append(l.again, r) }

// part begins a part of the turn.
func (l *Loop) part() { l.input = input{left: share} }

// serve begins to serve the next one. It reports false if the time of this part of the
// turn is up: then there is no allowance.
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
	return !in.over
}

// look finds out whether the time is up.
func (l *Loop) look() {
	in, now := &l.input, l.clock()
	switch {
	case in.until == 0:
		in.until = now + inputTime
	case now >= in.until:
		in.over, in.left = true, 0
	}
}

// goOn resumes those who have more to say, as many as the time allows.
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
	} else {
		l.busy = true
	}
}
