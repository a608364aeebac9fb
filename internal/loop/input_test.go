package loop

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/protocol"
)

// talker has much to say: each time it is resumed, it takes some time.
type talker struct {
	loop *Loop
	name string
	left int
	took time.Duration
	said func(name string)
}

func (r *talker) Resume() {
	time.Sleep(r.took)
	r.said(r.name)
	if r.left--; r.left > 0 {
		r.loop.Again(r)
	}
}

// Who has more to say goes on behind the others, and does not keep the loop from its
// tasks.
func TestTurnsOfThoseWhoSayMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		var said []string
		done := make(chan struct{})
		say := func(name string) {
			if said = append(said, name); len(said) == 10 {
				close(done)
			}
		}
		l.Post(Func(func() {
			for _, name := range []string{"a", "b", "c"} {
				l.Again(&talker{l, name, 3, time.Millisecond, say})
			}
			l.Post(Func(func() { say("task") }))
		}))
		go l.Run()
		<-done
		l.Close()
		if want := []string{"a", "b", "c", "task", "a", "b", "c", "a", "b", "c"}; !slices.Equal(said, want) {
			t.Errorf("said %q, want %q", said, want)
		}
	})
}

// A part of a turn has a share for each, until its time is up.
func TestAllowance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		l.part()
		for i := range 3 * lookAfter / serveCost {
			if !l.serve() || *l.Allowance() != share {
				t.Fatalf("the %d. has %d, without time having passed", i, *l.Allowance())
			}
		}
		time.Sleep(time.Duration(inputTime))
		served := 0
		for l.serve() {
			served++
			*l.Allowance() -= share / 2
		}
		if served > lookAfter/(serveCost+share/2)+1 || *l.Allowance() != 0 {
			t.Errorf("%d were served when the time was up; %d is left", served, *l.Allowance())
		}
		l.part()
		if !l.serve() || *l.Allowance() != share {
			t.Errorf("%d in the next part", *l.Allowance())
		}
	})
}

// lines is a framer without an envelope.
type lines struct{}

func (lines) Encoding() protocol.Encoding { return protocol.JSON }
func (lines) Headroom() int               { return 0 }
func (lines) Costly() bool                { return false }
func (lines) Frame(buf []byte) []byte     { return buf }

// A part ends when the turn has as many large frames as the next one can use again.
func TestLargeReplies(t *testing.T) {
	l := New()
	l.part()
	reply := make([]byte, 100_000)
	served := 0
	for l.serve() {
		var q sendqueue.Queue
		p := l.Pool()
		q.Add(p, append(q.Open(p, lines{}), reply...))
		q.Take(p)
		served++
	}
	if want := (sendqueue.MaxLarge + len(reply) - 1) / len(reply); served > want || *l.Allowance() != 0 {
		t.Errorf("%d were served, want at most %d", served, want)
	}
	l.Pool().Arena.Reset()
	if l.part(); !l.serve() {
		t.Error("the next turn serves nobody")
	}
}
