package channels

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
)

// lender is a memory engine that delivers publications in memory which it overwrites as
// soon as that is freed.
type lender struct {
	broker.Broker
	lent, freed atomic.Int64
	reading     func()
}

func (l *lender) Run(h broker.EventHandler) error { return l.Broker.Run(lending{h, l}) }

// History gives publications time to come while a client is subscribing.
func (l *lender) History(ctx context.Context, ch string, f broker.HistoryFilter) (broker.History, error) {
	h, err := l.Broker.History(ctx, ch, f)
	l.reading()
	return h, err
}

type lending struct {
	broker.EventHandler
	lender *lender
}

// loan is the memory of an event.
type loan struct {
	pub, prev channel.Publication
	lender    *lender
}

func (l lending) HandlePublication(ch string, e broker.PublicationEvent) {
	m := &loan{pub: lend(e.Pub), lender: l.lender}
	e.Pub, e.Memory = &m.pub, m
	if e.Prev != nil {
		m.prev = lend(e.Prev)
		e.Prev = &m.prev
	}
	l.lender.lent.Add(1)
	l.EventHandler.HandlePublication(ch, e)
}

func lend(p *channel.Publication) channel.Publication {
	own := *p
	own.Data = append([]byte(nil), p.Data...)
	return own
}

func (m *loan) Free(n int) {
	m.lender.freed.Add(int64(n))
	for _, p := range []*channel.Publication{&m.pub, &m.prev} {
		for i := range p.Data {
			p.Data[i] = '#'
		}
		*p = channel.Publication{}
	}
}

// TestLentMemory: what clients get is right though the engine uses memory again: whether
// they are subscribed, or are just subscribing and have it kept until they are.
func TestLentMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lender{Broker: nodetest.Plain(memory.New(memory.Config{}))}
		opts := gyro.SubscribeOptions{Recoverable: true}
		node := nodetest.Run(t, gyro.Config{Logger: nodetest.Quiet, Broker: l, Handlers: nodetest.Everything(opts, gyro.PublishOptions{})})
		n := 0
		publish := func() {
			for range 50 {
				n++
				if _, err := node.Publish(t.Context(), "ch", data(n), nodetest.Keep(1000, time.Minute)); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
		}
		l.reading = publish
		var clients []*wstest.Client
		for i := range 4 {
			c := nodetest.Connect(t, node, "u")
			if c.Subscribe("ch", ""); n != 50*(i+1) {
				t.Fatalf("%d publications when client %d had subscribed", n, i)
			}
			clients = append(clients, c)
		}
		publish()
		for i, c := range clients {
			want := 50 * i
			for _, p := range c.Pushes() {
				if want++; p.Pub == nil || p.Pub.Offset != uint64(want) || string(p.Pub.Data) != string(data(want)) {
					t.Fatalf("client %d got %+v, want publication %d", i, p.Pub, want)
				}
			}
			if want != n {
				t.Errorf("client %d got publications up to %d of %d", i, want, n)
			}
		}
		// Those of the time of a subscribe are kept for it.
		if lent, freed := l.lent.Load(), l.freed.Load(); lent != int64(n) || freed != 50 {
			t.Errorf("%d publications lent, %d freed, want %d and 50", lent, freed, n)
		}
	})
}

func data(n int) []byte { return fmt.Appendf(nil, `{"text":"publication","n":%d}`, n) }
