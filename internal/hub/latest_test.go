package hub_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/sendqueue"
)

// latecomer takes the newest publications of a batch, of those that pass; all if it needs all.
type latecomer struct {
	membership hub.Membership
	all        bool
	only       string // the tag of what passes, unless it is empty
	got        []*hub.Message
}

func (s *latecomer) Membership() *hub.Membership { return &s.membership }

func (s *latecomer) lets(p *channel.Publication) bool { return s.only == "" || p.Tags["t"] == s.only }

func (s *latecomer) Deliver(d *hub.Delivery) {
	if d.Kind != hub.KindPublication || s.lets(d.Pub) {
		s.got = append(s.got, d.Message)
	}
}

func (s *latecomer) DeliverAll(b *hub.Batch) bool {
	if !b.Latest() || s.all {
		return false
	}
	b.Newest(s.lets, s.Deliver)
	return true
}

// Of a batch, each subscriber gets the newest publication of each key that its filter lets through, and all
// joins, in their order.
func TestNewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := hub.New(new(sendqueue.Arena))
		subs := []*latecomer{{}, {only: "x"}, {all: true}, {}}
		for _, s := range subs {
			h.Add("ch", s)
		}
		window := hub.Window{Size: rapid.IntRange(1, 64).Draw(t, "size"), Delay: 5, Latest: rapid.IntRange(0, 9).Draw(t, "latest") > 0}
		h.SetWindow(subs[0], window)
		var batch []*hub.Message
		want := make([][]*hub.Message, len(subs))
		flush := func() {
			for i, s := range subs {
				for n, m := range batch {
					replaced := m.Kind == hub.KindPublication && !s.lets(m.Pub)
					for _, later := range batch[n+1:] {
						replaced = replaced || window.Latest && !s.all && m.Kind == hub.KindPublication && later.Kind == hub.KindPublication &&
							later.Pub.Key == m.Pub.Key && s.lets(later.Pub)
					}
					if !replaced {
						want[i] = append(want[i], m)
					}
				}
			}
			batch = nil
		}
		keys, tags := rapid.SampledFrom([]string{"", "", "a", "b"}), rapid.SampledFrom([]string{"x", "y"})
		for range rapid.IntRange(1, 200).Draw(t, "messages") {
			m := &hub.Message{Channel: "ch", Pub: &channel.Publication{Key: keys.Draw(t, "key"), Tags: map[string]string{"t": tags.Draw(t, "tag")}}}
			if rapid.IntRange(0, 9).Draw(t, "kind") == 0 {
				m = &hub.Message{Channel: "ch", Kind: hub.KindJoin, Info: new(channel.ClientInfo)}
			}
			h.Publish(m)
			h.Advance(1)
			for h.Deliver(rapid.IntRange(1, 3).Draw(t, "budget")) {
			}
			if batch = append(batch, m); len(batch) == window.Size {
				flush()
			}
		}
		left := len(subs) - 1
		h.Finish(subs[left]) // gets its share before the window ends, and nothing afterwards
		h.Remove(subs[left])
		h.Advance(10)
		h.Deliver(math.MaxInt)
		flush()
		for i, s := range subs {
			if len(s.got) != len(want[i]) {
				t.Fatalf("subscriber %d got %d messages, want %d", i, len(s.got), len(want[i]))
			}
			for n, m := range want[i] {
				if s.got[n] != m {
					t.Fatalf("subscriber %d: message %d is another one", i, n)
				}
			}
		}
	})
}

func TestNewestAllocBudget(t *testing.T) {
	h := hub.New(new(sendqueue.Arena))
	subs := []*latecomer{{}, {only: "x"}}
	for _, s := range subs {
		s.got = make([]*hub.Message, 0, 10000)
		h.Add("ch", s)
	}
	h.SetWindow(subs[0], hub.Window{Size: 10, Latest: true})
	pub := &channel.Publication{Tags: map[string]string{"t": "x"}}
	var messages [10]hub.Message
	if n := testing.AllocsPerRun(100, func() {
		for i := range messages {
			messages[i].Channel, messages[i].Pub = "ch", pub
			h.Publish(&messages[i])
		}
		h.Advance(1)
		h.Deliver(math.MaxInt)
	}); n > 0 {
		t.Errorf("%v allocations per batch", n)
	}
	if n := len(subs[0].got); n != 101 {
		t.Errorf("%d publications for 101 batches", n)
	}
}
