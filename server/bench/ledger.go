package bench

import "slices"

// outcome says what a subscriber has received: a message for the first time, or again.
type outcome int

const (
	fresh     outcome = iota // expected
	late                     // out of order: after a later one of the same publisher
	duplicate                // received before
)

// ledger keeps which messages of its channel a subscriber has received. Each publisher numbers
// its messages from 0.
type ledger struct {
	tracks []track // by publisher, grown on demand
}

type track struct {
	next  uint64 // all below came, except those in holes
	holes []span // in order
}

// span is a run of numbers that did not come: [from, to).
type span struct{ from, to uint64 }

// observe enters a message that was received.
func (l *ledger) observe(publisher int, seq uint64) outcome {
	for publisher >= len(l.tracks) {
		l.tracks = append(l.tracks, track{})
	}
	t := &l.tracks[publisher]
	if seq >= t.next {
		if seq > t.next {
			t.holes = append(t.holes, span{t.next, seq})
		}
		t.next = seq + 1
		return fresh
	}
	i, found := slices.BinarySearchFunc(t.holes, seq, func(s span, seq uint64) int {
		switch {
		case s.to <= seq:
			return -1
		case s.from > seq:
			return 1
		}
		return 0
	})
	if !found {
		return duplicate
	}
	hole := t.holes[i]
	var left []span
	if hole.from < seq {
		left = append(left, span{hole.from, seq})
	}
	if seq+1 < hole.to {
		left = append(left, span{seq + 1, hole.to})
	}
	t.holes = slices.Replace(t.holes, i, i+1, left...)
	return late
}

// missing returns how many of the publisher's first total messages did not come.
func (l *ledger) missing(publisher int, total uint64) uint64 {
	if publisher >= len(l.tracks) {
		return total
	}
	t := &l.tracks[publisher]
	n := total - min(t.next, total)
	for _, s := range t.holes {
		n += s.to - s.from
	}
	return n
}
