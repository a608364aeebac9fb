// Package account identifies messages, and records which subscriber has received which message.
package account

import "slices"

// Outcome tells whether a message is new, late or a duplicate.
type Outcome int

const (
	Fresh     Outcome = iota // expected
	Late                     // out of order: after a later one of the same publisher
	Duplicate                // received before
)

// Ledger keeps which messages of its channel a subscriber has received. Each publisher numbers its messages from 0. The
// zero value is ready.
type Ledger struct {
	tracks []track // by publisher, grown on demand
}

type track struct {
	next  uint64 // all numbers below it came, except the numbers in holes
	holes []span // in order
}

// span is a run of missing numbers: [from, to).
type span struct{ from, to uint64 }

// Observe enters a message that was received.
func (l *Ledger) Observe(publisher int, seq uint64) Outcome {
	for publisher >= len(l.tracks) {
		l.tracks = append(l.tracks, track{})
	}
	t := &l.tracks[publisher]
	if seq >= t.next {
		if seq > t.next {
			t.holes = append(t.holes, span{t.next, seq})
		}
		t.next = seq + 1
		return Fresh
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
		return Duplicate
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
	return Late
}

// Missing returns how many of the publisher's first total messages did not come.
func (l *Ledger) Missing(publisher int, total uint64) uint64 {
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
