package sharedpoll

import (
	"testing"

	"github.com/gyrohq/gyro/channel"
)

func newState(opts channel.SharedPoll) *state {
	return &state{opts: &opts, keys: make(map[string]*entry)}
}

// A key is in each list once, and in no call twice.
func TestLists(t *testing.T) {
	s := newState(channel.SharedPoll{Versioned: true})
	e := s.add("a", 0)
	s.hurry(e)
	s.hurry(e)
	if len(s.urgent) != 1 {
		t.Errorf("%d urgent keys", len(s.urgent))
	}
	r := s.ask(s.urgent)
	s.urgent = nil
	if again := s.ask([]*entry{e}); again != nil {
		t.Errorf("asked again for %+v", again.keys)
	}
	if s.hurry(e); len(s.urgent) != 0 {
		t.Error("a key is urgent that is just being asked for")
	}
	s.note(e)
	s.note(e)
	if len(s.noted) != 1 {
		t.Errorf("%d noted keys", len(s.noted))
	}
	if !s.hurryNoted() || len(s.noted) != 0 || e.noted || !e.again {
		t.Errorf("noted: %+v, %+v", s.noted, e)
	}
	s.done(r)
	if len(s.urgent) != 1 || e.asking || e.again {
		t.Errorf("urgent: %d, %+v", len(s.urgent), e)
	}
}

// What nobody tracks any more is not asked for, whatever has been wanted of it.
func TestListsWithoutTrackers(t *testing.T) {
	s := newState(channel.SharedPoll{Versioned: true})
	e := s.add("a", 0)
	s.seek(e, 0)
	r := s.ask(s.urgent)
	s.urgent = nil
	s.note(e)
	if s.hurryNoted(); !e.again {
		t.Error("the key is not asked for again")
	}
	s.note(e)
	s.remove("a", 0, 1, 5)
	if e.wanted || s.hurryNoted() {
		t.Errorf("wanted by nobody: %+v", e)
	}
	if s.done(r); len(s.urgent) != 0 {
		t.Errorf("%d urgent keys", len(s.urgent))
	}
	if s.forgetIdle(4); s.keys["a"] == nil {
		t.Error("forgotten too early")
	}
	if s.forgetIdle(5); s.keys["a"] != nil || len(s.idle) != 0 {
		t.Error("not forgotten in time")
	}
}

// Only loops with trackers are told; an entry that has new trackers is not forgotten.
func TestLoops(t *testing.T) {
	s := newState(channel.SharedPoll{Versioned: true})
	e := s.add("a", 0)
	s.add("a", 1)
	s.add("b", 2)
	s.remove("a", 0, 3, 1)
	if e.loops != bit(1) || e.loopCount != 1 || len(s.live) != 2 {
		t.Errorf("%+v, %d live keys", e, len(s.live))
	}
	s.remove("a", 1, 3, 2)
	if e.index != -1 || len(s.live) != 1 || s.live[0].key != "b" || s.live[0].index != 0 {
		t.Errorf("%+v of %d live keys", s.live[0], len(s.live))
	}
	s.add("a", 2)
	if s.forgetIdle(9); s.keys["a"] != e {
		t.Error("a key that is tracked again is forgotten")
	}
}
