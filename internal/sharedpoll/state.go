// Package sharedpoll knows which keys of shared poll channels the clients of a node track, and the newest version of
// each. It asks the application for the keys (Table), and tells the loops of changes. Keys are what one client tracks,
// and send it the newest values.
package sharedpoll

import (
	"errors"
	"hash/maphash"
	"slices"

	"github.com/gyrohq/gyro/channel"
)

var seed = maphash.MakeSeed()

type entry struct {
	key string
	// loops with trackers, by bit, and how many loops that are.
	loops     uint64
	loopCount int32
	// index in state.live; -1 if no client tracks the key.
	index int32
	// version of the newest value; 0 if none is known. hash is the hash of its data.
	version uint64
	hash    uint64
	value   *channel.Publication
	// before is the version when the call under way was made.
	before uint64
	// asking: a call for the key is under way. whole: it asks for the value even if that has not changed. wanted: a
	// tracker needs the value. again: the node was notified of the key during the call. urgent and noted: the key is in
	// that list of state.
	asking, whole, wanted, again, urgent, noted bool
}

func (e *entry) known() bool { return e.version > 0 }

// state of a channel on this node. It knows no time, no locks and no goroutines.
type state struct {
	opts *channel.SharedPoll
	keys map[string]*entry
	live []*entry
	// idle are keys that lost their last client, the earliest first.
	idle   []idle
	urgent []*entry
	// noted are keys of notifications that wait for others before they become urgent.
	noted []*entry
	epoch string
	// generation counts the epochs, after which versions begin anew.
	generation uint32
	numbered   uint64
}

type idle struct {
	entry *entry
	at    int64
}

// maxLoops is how many loops have a bit of their own in entry.loops.
const maxLoops = 64

func bit(loop int) uint64 { return 1 << (uint(loop) % maxLoops) }

func (s *state) add(key string, loop int) *entry {
	e := s.keys[key]
	if e == nil {
		e = &entry{key: key, index: -1}
		s.keys[key] = e
	}
	if e.loopCount == 0 {
		e.index = int32(len(s.live))
		s.live = append(s.live, e)
	}
	e.loopCount++
	e.loops |= bit(loop)
	return e
}

// now is in ns. With more than 64 loops, one may get the changes in vain.
func (s *state) remove(key string, loop, loops int, now int64) {
	e := s.keys[key]
	if e == nil || e.loopCount == 0 {
		return
	}
	if loops <= maxLoops {
		e.loops &^= bit(loop)
	}
	if e.loopCount--; e.loopCount > 0 {
		return
	}
	last := len(s.live) - 1
	s.live[e.index] = s.live[last]
	s.live[e.index].index = e.index
	s.live[last] = nil
	s.live = s.live[:last]
	e.loops, e.index, e.wanted = 0, -1, false
	s.idle = append(s.idle, idle{e, now})
}

func (s *state) forgetIdle(since int64) {
	n := 0
	for ; n < len(s.idle) && s.idle[n].at <= since; n++ {
		if e := s.idle[n].entry; e.loopCount == 0 && s.keys[e.key] == e {
			delete(s.keys, e.key)
		}
	}
	s.idle = slices.Delete(s.idle, 0, n)
}

// seek returns the newest value for a tracker of a version, if the node keeps one, or asks the application at once.
func (s *state) seek(e *entry, version uint64) *channel.Publication {
	switch {
	case e.known() && e.version <= version, !e.known() && version > 0:
		return nil
	case e.value != nil:
		return e.value
	}
	e.wanted = true
	s.hurry(e)
	return nil
}

func (s *state) hurry(e *entry) {
	if !e.urgent && !e.asking {
		e.urgent = true
		s.urgent = append(s.urgent, e)
	}
}

func (s *state) note(e *entry) {
	if !e.noted {
		e.noted = true
		s.noted = append(s.noted, e)
	}
}

// hurryNoted returns false if no client tracks any of them.
func (s *state) hurryNoted() (found bool) {
	for _, e := range s.noted {
		e.noted = false
		if e.loopCount > 0 {
			found = true
			e.again = e.asking
			s.hurry(e)
		}
	}
	s.noted = nil
	return found
}

type request struct {
	entries    []*entry
	keys       []channel.PolledKey
	generation uint32
}

func (s *state) ask(entries []*entry) *request {
	r := &request{generation: s.generation}
	for _, e := range entries {
		e.urgent = false
		if e.loopCount == 0 || e.asking {
			continue
		}
		e.asking, e.before = true, e.version
		e.whole = e.wanted || !s.opts.Versioned
		key := channel.PolledKey{Key: e.key}
		if !e.whole {
			key.Version = e.version
		}
		r.entries, r.keys = append(r.entries, e), append(r.keys, key)
	}
	if len(r.keys) == 0 {
		return nil
	}
	return r
}

type change struct {
	pub   *channel.Publication
	prev  *channel.Publication // the base for a patch to pub; nil if none is known
	loops uint64
}

type outcome struct {
	changes                     []change
	reset                       bool
	changed, unchanged, removed int
	// odd are keys with values that mean nothing, and why.
	odd []odd
}

type odd struct {
	key string
	why error
}

func (o *outcome) refuse(key string, why error) {
	const most = 4 // for the log
	if len(o.odd) < most {
		o.odd = append(o.odd, odd{key, why})
	}
}

var (
	errNoVersion = errors.New("the value has no version, which a versioned channel needs")
	errNoData    = errors.New("the value has no data")
	errOlder     = errors.New("the version is lower than the known one")
	errNotAsked  = errors.New("the key was not asked for")
	errStale     = errors.New("the answer is of an epoch before the present one")
)

type value struct {
	channel.KeyValue
	checked bool
	hash    uint64
	bad     error
}

func (s *state) done(r *request) {
	for _, e := range r.entries {
		e.asking = false
		// A tracker that came meanwhile needs the value, which the application may have left out.
		if (e.wanted && !e.whole || e.again) && e.loopCount > 0 {
			s.hurry(e)
		}
		e.again = false
	}
}

// answer takes the answer to a request; values are nil after a failure.
func (s *state) answer(r *request, values []value, epoch string) (o outcome) {
	defer s.done(r)
	if !s.enter(&o, epoch, r.generation) {
		return o
	}
	for i := range values {
		v := &values[i]
		switch e := s.keys[v.Key]; {
		case e == nil || !e.asking:
			if !slices.ContainsFunc(r.keys, func(k channel.PolledKey) bool { return k.Key == v.Key }) {
				o.refuse(v.Key, errNotAsked)
			}
		case v.bad != nil:
			o.refuse(v.Key, v.bad)
		case v.Removed && e.version != e.before:
			// A value that came during the call is newer than the answer.
		case v.Removed:
			s.vanish(&o, e)
		default:
			s.set(&o, e, v)
		}
	}
	o.unchanged = len(r.keys) - o.changed - o.removed
	return o
}

// enter compares the epoch of an answer, or of a published value, with the known one. It returns false for one of an
// earlier epoch. generation is of the question.
func (s *state) enter(o *outcome, epoch string, generation uint32) bool {
	if !s.opts.Versioned || epoch == "" || epoch == s.epoch {
		return true
	}
	if generation != s.generation {
		o.refuse("", errStale)
		return false
	}
	// Also the first one: clients notice a change of the epoch only if they know the one before.
	s.epoch = epoch
	s.generation++
	o.reset = true
	for _, e := range s.keys {
		e.version, e.hash, e.value = 0, 0, nil
	}
	return true
}

func (s *state) publish(v *value, epoch string) (o outcome) {
	e := s.keys[v.Key]
	s.enter(&o, epoch, s.generation)
	switch {
	case e == nil || e.loopCount == 0:
	case v.bad != nil:
		o.refuse(v.Key, v.bad)
	case v.Version <= e.version:
	case v.Removed:
		s.vanish(&o, e)
	default:
		s.set(&o, e, v)
	}
	return o
}

func (s *state) set(o *outcome, e *entry, v *value) {
	version := v.Version
	switch {
	case !s.opts.Versioned && e.known() && e.hash == v.hash:
		version = e.version
	case !s.opts.Versioned:
		s.numbered++
		version = s.numbered
	case version == 0:
		o.refuse(e.key, errNoVersion)
		return
	case version < e.version:
		o.refuse(e.key, errOlder)
		return
	}
	fresh := version > e.version
	if !fresh && !e.wanted {
		return
	}
	pub := &channel.Publication{Key: e.key, Data: v.Data, Version: version, Checked: v.checked}
	c := change{pub: pub, loops: e.loops}
	if fresh {
		o.changed++
		c.prev = s.before(e, v)
	}
	e.version, e.hash, e.wanted = version, v.hash, false
	if s.opts.KeepLatest {
		e.value = pub
	}
	if e.loopCount > 0 {
		o.changes = append(o.changes, c)
	}
}

// before returns the value before v: the kept one, or the one that the application says, if it is the known one.
func (s *state) before(e *entry, v *value) *channel.Publication {
	switch {
	case !e.known():
		return nil
	case e.value != nil:
		return e.value
	case len(v.Prev) > 0 && maphash.Bytes(seed, v.Prev) == e.hash:
		return &channel.Publication{Data: v.Prev, Version: e.version}
	}
	return nil
}

func (s *state) vanish(o *outcome, e *entry) {
	o.removed++
	e.version, e.hash, e.value, e.wanted = 0, 0, nil, false
	if e.loopCount > 0 {
		o.changes = append(o.changes, change{pub: &channel.Publication{Key: e.key, Removed: true}, loops: e.loops})
	}
}
