//go:build !race

package costs

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/gyrohq/gyro/internal/nodeaccess"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/transport"
)

// perClient is how many channels each client subscribes to.
const perClient = 100

// crowd are clients on the loops of a node.
type crowd struct {
	loops nodeaccess.Acceptor
	conn  *sink
	peers []transport.Peer
	on    []transport.Loop
	peer  transport.Peer
	frame []byte // that it sends
	send  func()
}

// connected returns n clients.
func connected(tb testing.TB, loops nodeaccess.Acceptor, n int) *crowd {
	c := &crowd{loops: loops, conn: newSink()}
	for range n {
		l := loops.NextLoop()
		c.on = append(c.on, l)
		c.conn.await(1, func() {
			l.Post(func() {
				p, err := loops.AcceptOn(l, context.Background(), c.conn, info)
				if err != nil {
					panic(err)
				}
				c.peers = append(c.peers, p)
				p.Receive([]byte(`{"id":1,"connect":{}}`))
			})
		})
	}
	c.send = func() { c.peer.Receive(c.frame) }
	return c
}

// subscribe has all clients subscribe to channels of their own.
func (c *crowd) subscribe() {
	for i, p := range c.peers {
		for n := range perClient {
			c.frame = fmt.Appendf(c.frame[:0], `{"id":%d,"subscribe":{"channel":"user:%d:%d"}}`, n+2, i, n)
			c.peer = p
			c.conn.await(1, func() { c.on[i].Post(c.send) })
		}
	}
}

func (c *crowd) end() {
	for i, p := range c.peers {
		c.on[i].Post(func() { p.Closed(nil) })
	}
}

// TestSubscribeBudget: what a subscription to a channel of its own costs besides the memory that it keeps. That is what a process
// needs in addition until the collector has run, and why it runs.
func TestSubscribeBudget(t *testing.T) {
	const clients, allocBudget, liveBudget = 200, 750, 450
	alone(t)
	node := inline(t)
	loops, _ := loopsOf(t, node)
	c := connected(t, loops, clients)
	defer c.end()
	var before, after runtime.MemStats
	live := bytesEach(t, clients*perClient, func() {
		runtime.ReadMemStats(&before)
		c.subscribe()
		runtime.ReadMemStats(&after)
	})
	if n := nodetest.Info(t, node).NumChannels; n != clients*perClient {
		t.Fatalf("%d channels", n)
	}
	bytes := int64(after.TotalAlloc-before.TotalAlloc) / (clients * perClient)
	t.Logf("%d bytes in %.1f allocations, of which %d bytes are kept", bytes, float64(after.Mallocs-before.Mallocs)/(clients*perClient), live)
	if bytes > allocBudget || live > liveBudget {
		t.Errorf("a subscription takes %d bytes, budget %d; it keeps %d, budget %d", bytes, allocBudget, live, liveBudget)
	}
}

// BenchmarkSubscribe: 10 clients subscribe to 100 channels each.
func BenchmarkSubscribe(b *testing.B) {
	loops, _ := loopsOf(b, inline(b))
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		c := connected(b, loops, 10)
		b.StartTimer()
		c.subscribe()
		b.StopTimer()
		c.end()
		b.StartTimer()
	}
}
