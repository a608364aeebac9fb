// Package follower is a subscriber with recovery that checks its events, for tests of engines.
package follower

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// Follower is an EventHandler that follows a channel as a client with recovery does, and checks that acknowledged
// publications are delivered, unless it was told of a loss. It takes the successor of its position. Otherwise, and after
// HandleLoss, it recovers from the history; if it cannot, it counts as told, and goes on from the top. Publications must
// be numbers (see Number) in the order of publishing.
type Follower struct {
	ch     string
	broker broker.Broker
	events chan *broker.PublicationEvent // nil: a loss

	mu       sync.Mutex
	position channel.StreamPosition
	base     string // the data that were received last
	book     []int  // the received numbers, and told
	faults   []string
}

// told in the book: numbers before it may be missing.
const told = -1

// New returns a follower of a channel. It must be the broker's EventHandler.
func New(ch string) *Follower {
	return &Follower{ch: ch, events: make(chan *broker.PublicationEvent, 100_000)}
}

// Number makes the publication of a number.
func Number(n int) *channel.Publication {
	// The data are so long that deltas pay.
	return &channel.Publication{Data: fmt.Appendf(nil, `{"of":"a publication with a number","number":"%d"}`, n)}
}

func numberOf(data []byte) (n int) {
	if _, err := fmt.Sscanf(string(data), `{"of":"a publication with a number","number":"%d"}`, &n); err != nil {
		return 0
	}
	return n
}

func (f *Follower) HandlePublication(ch string, e broker.PublicationEvent) {
	if ch == f.ch {
		f.events <- &e
	}
}

func (f *Follower) HandleJoin(string, *channel.ClientInfo) {}

func (f *Follower) HandleLeave(string, *channel.ClientInfo) {}

func (f *Follower) HandleLoss(match func(ch string) bool) {
	if match(f.ch) {
		f.events <- nil
	}
}

// Channel that is followed.
func (f *Follower) Channel() string { return f.ch }

// Start subscribes, and follows the channel until the test ends.
func (f *Follower) Start(tb testing.TB, b broker.Broker) {
	tb.Helper()
	f.broker = b
	ctx, cancel := context.WithCancel(context.Background())
	if err := b.Subscribe(ctx, f.ch); err != nil {
		tb.Fatal(err)
	}
	f.recover(ctx)
	var running sync.WaitGroup
	running.Go(func() { f.follow(ctx) })
	tb.Cleanup(func() { cancel(); running.Wait() })
}

func (f *Follower) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-f.events:
			if e == nil || !f.take(e) {
				f.recover(ctx)
			}
		}
	}
}

// take returns false if the follower has to recover.
func (f *Follower) take(e *broker.PublicationEvent) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case e.Epoch != f.position.Epoch || e.Pub.Offset > f.position.Offset+1:
		return false
	case e.Pub.Offset <= f.position.Offset:
		return true
	}
	if e.Delta && e.Prev != nil && f.base != "" && string(e.Prev.Data) != f.base {
		f.faults = append(f.faults, fmt.Sprintf("a patch of %s for %s, to a client that has %s", e.Prev.Data, e.Pub.Data, f.base))
	}
	f.receive(e.Pub)
	return true
}

func (f *Follower) receive(p *channel.Publication) {
	f.position.Offset = p.Offset
	f.base = string(p.Data)
	f.book = append(f.book, numberOf(p.Data))
}

func (f *Follower) recover(ctx context.Context) {
	for ctx.Err() == nil {
		f.mu.Lock()
		since := f.position
		f.mu.Unlock()
		h, err := f.broker.History(ctx, f.ch, broker.HistoryFilter{Since: &since, Limit: -1})
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if recoverable(since, &h) {
			for _, p := range h.Publications {
				f.receive(p)
			}
			return
		}
		f.position, f.base = h.Top, ""
		f.book = append(f.book, told)
		return
	}
}

// recoverable tells whether h leads from a position to the top without a gap.
func recoverable(since channel.StreamPosition, h *broker.History) bool {
	if h.Top.Epoch != since.Epoch || h.Top.Offset < since.Offset || h.Top.Offset-since.Offset != uint64(len(h.Publications)) {
		return false
	}
	for i, p := range h.Publications {
		if p.Offset != since.Offset+1+uint64(i) {
			return false
		}
	}
	return true
}

// Told returns how often the follower was told of a loss after Start.
func (f *Follower) Told() (times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.book {
		if n == told {
			times++
		}
	}
	return times - 1 // it is told when it starts
}

// Verify waits for the top of the stream, and checks that the follower received each accepted number, once and in order,
// unless it was told. It returns how many are missing.
func (f *Follower) Verify(tb testing.TB, accepted []int) (missing int) {
	tb.Helper()
	f.await(tb)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range f.faults {
		tb.Error(fault)
	}
	last, wasTold := 0, false
	got := make(map[int]bool)
	for _, n := range append(slices.Clone(f.book), accepted[len(accepted)-1]+1) {
		if n == told {
			wasTold = true
			continue
		}
		if n <= last {
			tb.Errorf("%d came behind %d", n, last)
		}
		if silently := between(accepted, last, n); len(silently) > 0 && !wasTold {
			tb.Errorf("lost without a word between %d and %d: %s", last, n, ranges(silently))
		}
		last, wasTold = n, false
		got[n] = true
	}
	for _, n := range accepted {
		if !got[n] {
			missing++
		}
	}
	return missing
}

func (f *Follower) await(tb testing.TB) {
	tb.Helper()
	wait.Success(tb, "the follower reaches the top", func() error {
		top, err := f.broker.History(tb.Context(), f.ch, broker.HistoryFilter{})
		if err != nil {
			return err
		}
		f.mu.Lock()
		position := f.position
		f.mu.Unlock()
		if position != top.Top || len(f.events) > 0 {
			return fmt.Errorf("it is at %+v and has not been told that the stream is at %+v", position, top.Top)
		}
		return nil
	})
}

func between(accepted []int, after, before int) []int {
	from, _ := slices.BinarySearch(accepted, after+1)
	to, _ := slices.BinarySearch(accepted, before)
	return accepted[from:max(from, to)]
}

func ranges(list []int) string {
	return strconv.Itoa(list[0]) + " to " + strconv.Itoa(list[len(list)-1]) + " (" + strconv.Itoa(len(list)) + ")"
}
