package hub_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/sendqueue"
)

// place is the memory of a publication, which is overwritten when it is freed.
type place struct {
	pub   channel.Publication
	freed atomic.Int32
	kept  atomic.Bool
}

func (p *place) Free(n int) {
	p.freed.Add(int32(n))
	p.pub = channel.Publication{Offset: 1 << 40}
}

// keeper is a subscriber that keeps some messages for good.
type keeper struct {
	t          *testing.T
	membership hub.Membership
	places     []*place
	some       int // of so many it keeps one; 0: none
	got        int
	kept       []*hub.Message
}

func (k *keeper) Membership() *hub.Membership { return &k.membership }
func (k *keeper) DeliverAll(*hub.Batch) bool  { return false }
func (k *keeper) Deliver(d *hub.Delivery) {
	k.got++
	if d.Pub.Offset != uint64(d.ID) {
		k.t.Errorf("message %d holds publication %d", d.ID, d.Pub.Offset)
	}
	if k.some > 0 && rand.IntN(k.some) == 0 {
		d.Keep()
		k.places[d.ID].kept.Store(true)
		k.kept = append(k.kept, d.Message)
	}
}

// TestMemory: publications are freed once each, when the last loop is through with them, but
// for those that a subscriber keeps.
func TestMemory(t *testing.T) {
	const loops, messages = 4, 20_000
	places := make([]*place, messages)
	var inboxes [loops]chan *hub.Message
	var keepers [loops][]*keeper
	var running sync.WaitGroup
	for i := range loops {
		inboxes[i] = make(chan *hub.Message, 100)
		h := hub.New(new(sendqueue.Arena))
		for j := range i { // the first loop has lost its subscribers
			k := &keeper{t: t, places: places, some: []int{0, 0, 1000}[j]}
			keepers[i] = append(keepers[i], k)
			h.Add("ch", k)
		}
		running.Go(func() {
			for m := range inboxes[i] {
				h.Publish(m)
				if rand.IntN(10) == 0 {
					h.Deliver(1 + rand.IntN(20))
				}
			}
			for h.Deliver(100) {
			}
		})
	}
	for id := range places {
		places[id] = &place{pub: channel.Publication{Offset: uint64(id)}}
		m := hub.NewMessage()
		m.Channel, m.ID, m.Pub, m.Memory = "ch", int64(id), &places[id].pub, places[id]
		to := rand.Perm(loops)[:rand.IntN(loops+1)]
		if id%2 == 0 {
			to = rand.Perm(loops)
		}
		m.Share(len(to))
		for _, i := range to {
			inboxes[i] <- m
		}
	}
	for i := range inboxes {
		close(inboxes[i])
	}
	running.Wait()
	kept := 0
	for id, p := range places {
		if n := p.freed.Load(); n > 1 || (n == 1) == p.kept.Load() {
			t.Fatalf("message %d was freed %d times; kept: %v", id, n, p.kept.Load())
		}
	}
	for i := range keepers {
		for _, k := range keepers[i] {
			if k.got < messages/2 {
				t.Errorf("a subscriber got %d messages", k.got)
			}
			for _, m := range k.kept {
				if kept++; m.Pub.Offset != uint64(m.ID) || m.Channel != "ch" {
					t.Fatalf("a kept message has become %d %q, publication %d", m.ID, m.Channel, m.Pub.Offset)
				}
			}
		}
	}
	if kept == 0 {
		t.Error("nothing was kept")
	}
}

// What nobody waits for any more is freed as well.
func TestMemoryOfNobody(t *testing.T) {
	h := hub.New(new(sendqueue.Arena))
	k := &keeper{t: t}
	h.Add("ch", k)
	h.SetWindow(k, hub.Window{Delay: 1e9})
	p := &place{}
	m := hub.NewMessage()
	m.Channel, m.Pub, m.Memory = "ch", &p.pub, p
	m.Share(1)
	h.Publish(m)
	h.Deliver(1)
	h.Remove(k) // while the message is held back
	if n := p.freed.Load(); n != 1 {
		t.Errorf("freed %d times", n)
	}
}
