// Package record remembers the events of a broker.
package record

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest/follower"
	"github.com/gyrohq/gyro/channel"
)

// Event is anything that a broker delivers.
type Event struct {
	Kind string // "publication", "join", "leave"
	broker.PublicationEvent
	Info *channel.ClientInfo
}

func (e Event) String() string {
	if e.Pub == nil {
		return e.Kind
	}
	return fmt.Sprintf("%d:%.20q", e.Pub.Offset, e.Pub.Data)
}

// Recorder is an event handler that remembers. It checks that events of a channel come one at a time.
type Recorder struct {
	// Follower gets the publications and losses as well, unless it is nil.
	Follower atomic.Pointer[follower.Follower]
	// Hook is called during each event. It is set before the first one.
	Hook func()

	mu      sync.Mutex
	events  map[string][]Event
	busy    map[string]bool
	overlap string // a channel that had two calls at a time
	losses  []loss
	changed chan struct{}

	sealed   bool
	unsealed int // events that came later
}

// loss is a call of HandleLoss, with the number of events before it by channel.
type loss struct {
	match  func(ch string) bool
	counts map[string]int
}

// New returns a recorder without events.
func New() *Recorder {
	return &Recorder{Hook: func() {}, events: map[string][]Event{}, busy: map[string]bool{}, changed: make(chan struct{})}
}

func (r *Recorder) HandlePublication(ch string, e broker.PublicationEvent) {
	if follower := r.Follower.Load(); follower != nil {
		follower.HandlePublication(ch, e)
	}
	r.add(ch, Event{Kind: "publication", PublicationEvent: e})
}

func (r *Recorder) HandleJoin(ch string, info *channel.ClientInfo) {
	r.add(ch, Event{Kind: "join", Info: info})
}

func (r *Recorder) HandleLeave(ch string, info *channel.ClientInfo) {
	r.add(ch, Event{Kind: "leave", Info: info})
}

func (r *Recorder) HandleLoss(match func(ch string) bool) {
	if follower := r.Follower.Load(); follower != nil {
		follower.HandleLoss(match)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := make(map[string]int, len(r.events))
	for ch, events := range r.events {
		counts[ch] = len(events)
	}
	r.losses = append(r.losses, loss{match, counts})
}

func (r *Recorder) add(ch string, e Event) {
	r.mu.Lock()
	if r.busy[ch] {
		r.overlap = ch
	}
	r.busy[ch] = true
	r.mu.Unlock()

	runtime.Gosched() // gives another call for ch, which is not allowed, time to come
	r.Hook()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy[ch] = false
	r.events[ch] = append(r.events[ch], e)
	if r.sealed {
		r.unsealed++
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// Lost tells whether HandleLoss was called for the channel after its first k events.
func (r *Recorder) Lost(ch string, k int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.losses, func(l loss) bool { return l.counts[ch] >= k && l.match(ch) })
}

// Of returns the events of the channel so far.
func (r *Recorder) Of(ch string) []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events[ch])
}

// Drop removes the events of the channel that drop selects.
func (r *Recorder) Drop(ch string, drop func(Event) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events[ch] = slices.DeleteFunc(r.events[ch], drop)
}

// Seal says that no event may come any more, and Unsealed how many have come since.
func (r *Recorder) Seal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sealed = true
}

func (r *Recorder) Unsealed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unsealed
}

// AtLeast is a condition for Wait.
func AtLeast(n int) func([]Event) bool { return func(e []Event) bool { return len(e) >= n } }

// Wait returns the events of the channel when they are enough. It fails after patience, or if two events of a channel
// came at a time.
func (r *Recorder) Wait(ch string, patience time.Duration, enough func([]Event) bool) ([]Event, error) {
	limit := time.After(patience)
	for {
		r.mu.Lock()
		changed, overlap := r.changed, r.overlap
		r.mu.Unlock()
		if overlap != "" {
			return nil, fmt.Errorf("two events of %s were delivered at a time", overlap)
		}
		events := r.Of(ch)
		if enough(events) {
			return events, nil
		}
		select {
		case <-changed:
		case <-limit:
			return events, fmt.Errorf("%d events of %s after %v, not what is waited for", len(events), ch, patience)
		}
	}
}
