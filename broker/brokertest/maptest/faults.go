package maptest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// RunFaults changes maps by two nodes while Capabilities.Fault makes faults. A subscriber on each node follows the maps
// as clients do; at the end all maps are equal.
func RunFaults(t *testing.T, newBroker func(t testing.TB) broker.Broker, caps brokertest.Capabilities) {
	nodes := make([]*fixture, 2)
	for i := range nodes {
		nodes[i] = newFixture(t, newBroker(t), caps)
	}
	var copies []*replica
	for range 4 {
		nodes[0].begin()
		for _, n := range nodes {
			f := *n
			f.ch = nodes[0].ch
			f.must(f.broker.Subscribe(t.Context(), f.ch))
			copies = append(copies, &replica{f: &f})
		}
	}
	over := make(chan struct{})
	var work sync.WaitGroup
	for i, c := range copies {
		r := rand.New(rand.NewPCG(caps.Seed, uint64(i)))
		work.Go(func() { until(over, func() { c.f.disturb(r) }) })
		work.Go(func() { until(over, func() { _ = c.follow(t.Context()) }) })
	}
	r := rand.New(rand.NewPCG(caps.Seed, 100))
	for range 3 + r.IntN(4) {
		time.Sleep(time.Duration(r.Int64N(int64(200 * time.Millisecond))))
		caps.Fault(t, r)
	}
	close(over)
	work.Wait()
	for _, c := range copies {
		wait.Success(t, "the map of a subscriber", func() error { return c.check(t.Context()) })
		if c.restarts > 1 {
			t.Logf("%s: %d changes, began %d times", c.f.ch, c.applied, c.restarts)
		}
	}
}

func until(over <-chan struct{}, do func()) {
	for {
		select {
		case <-over:
			return
		default:
			do()
			time.Sleep(2 * time.Millisecond) // the rate of the load
		}
	}
}

// disturb changes an entry at random. It may fail.
func (f *fixture) disturb(r *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit)
	defer cancel()
	o := channel.MapOptions{StreamSize: 50, StreamTTL: time.Hour, Delta: r.IntN(2) == 0}
	if r.IntN(3) == 0 {
		o.KeyTTL = time.Duration(1+r.IntN(500)) * time.Millisecond
	}
	if r.IntN(4) == 0 {
		o.KeyMode = channel.KeyIfNew
	}
	pub := &channel.Publication{Key: fmt.Sprint("k", r.IntN(20)), Data: fmt.Append(nil, r.Uint32()), Removed: r.IntN(4) == 0}
	_, _ = f.maps.Change(ctx, f.ch, pub, o)
}

// replica is the map of a subscriber.
type replica struct {
	f        *fixture
	entries  map[string]string
	at       channel.StreamPosition
	read     int // events
	applied  int
	restarts int
}

var errGap = errors.New("changes are missing")

func (c *replica) follow(ctx context.Context) error {
	events := c.f.events.Of(c.f.ch)[c.read:]
	if c.entries == nil && len(events) > 0 {
		return c.restart(ctx)
	}
	for _, e := range events {
		c.read++
		switch {
		case e.Epoch == c.at.Epoch && e.Pub.Offset <= c.at.Offset:
		case e.Epoch != c.at.Epoch || e.Pub.Offset != c.at.Offset+1:
			return c.restart(ctx)
		default:
			c.apply(e.Pub)
		}
	}
	return nil
}

func (c *replica) apply(pub *channel.Publication) {
	c.applied++
	c.at.Offset = pub.Offset
	if pub.Removed {
		delete(c.entries, pub.Key)
		return
	}
	c.entries[pub.Key] = text(pub)
}

// restart reads the state in pages, and the changes since the first page. After a failure the next event tries again.
func (c *replica) restart(ctx context.Context) error {
	c.restarts++
	c.entries = nil
	entries, frozen, cursor := map[string]string{}, channel.StreamPosition{}, ""
	for first := true; first || cursor != ""; first = false {
		page, err := c.f.maps.State(ctx, c.f.ch, channel.StateFilter{Limit: 5, Cursor: cursor})
		if err != nil {
			return err
		}
		if first {
			frozen = page.Top
		} else if page.Top.Epoch != frozen.Epoch {
			return errGap
		}
		for _, p := range page.Entries {
			if p.Offset <= frozen.Offset {
				entries[p.Key] = text(p)
			}
		}
		cursor = page.Cursor
	}
	c.entries, c.at = entries, frozen
	if err := c.recoverChanges(ctx); err != nil {
		c.entries = nil
		return err
	}
	return nil
}

// recoverChanges reads the missed changes from the stream.
func (c *replica) recoverChanges(ctx context.Context) error {
	h, err := c.f.broker.History(ctx, c.f.ch, broker.HistoryFilter{Since: &channel.StreamPosition{Offset: c.at.Offset, Epoch: c.at.Epoch}, Limit: -1})
	switch {
	case err != nil:
		return err
	case h.Top.Epoch != c.at.Epoch || h.Top.Offset < c.at.Offset:
		return errGap
	case h.Top.Offset > c.at.Offset && (len(h.Publications) == 0 || h.Publications[0].Offset != c.at.Offset+1):
		return errGap
	}
	for _, p := range h.Publications {
		c.apply(p)
	}
	return nil
}

// check recovers once more, as a client that comes back, and compares the map with the engine's. It tries again
// if entries expire meanwhile.
func (c *replica) check(ctx context.Context) error {
	err := errGap
	if c.entries != nil {
		err = c.recoverChanges(ctx)
	}
	if errors.Is(err, errGap) {
		err = c.restart(ctx)
	}
	if err != nil {
		return err
	}
	want, err := c.f.maps.State(ctx, c.f.ch, channel.StateFilter{Limit: -1})
	if err != nil {
		return err
	}
	if want.Top != c.at {
		return fmt.Errorf("the map is at %+v, its top at %+v", c.at, want.Top)
	}
	entries := map[string]string{}
	for _, p := range want.Entries {
		entries[p.Key] = text(p)
	}
	c.f.equal("map of "+c.f.ch, c.entries, entries)
	return nil
}
