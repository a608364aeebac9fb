package channels

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/transport"
)

// counted is an acceptor that counts the writes to its connections.
type counted struct {
	transport.Acceptor
	writes atomic.Int32
}

func (a *counted) Accept(ctx context.Context, c transport.Conn, info transport.Info) (transport.Peer, error) {
	return a.Acceptor.Accept(ctx, &countedConn{c, a}, info)
}

type countedConn struct {
	transport.Conn
	of *counted
}

func (c *countedConn) Write(frames [][]byte) (int, error) {
	c.of.writes.Add(1)
	return c.Conn.Write(frames)
}

// batchNode is a node with subscribers of one channel, which was published to.
type batchNode struct {
	t     *testing.T
	node  *gyro.Node
	conns *counted
	subs  []*wstest.Client
	sent  int
}

func newBatchNode(t *testing.T, o gyro.SubscribeOptions, subs int) *batchNode {
	b := &batchNode{t: t, node: nodetest.Run(t, gyro.Config{PingInterval: -1, PositionMaxTimeLag: time.Second, Handlers: gyro.Handlers{Connecting: nodetest.As, Subscribe: nodetest.Allow(o)}})}
	b.conns = &counted{Acceptor: b.node}
	for i := range subs {
		c := wstest.Pipe(t, b.conns)
		c.Connect(fmt.Sprintf(`"token":"u%d"`, i))
		c.Subscribe("ch", "")
		b.subs = append(b.subs, c)
	}
	b.quiet()
	return b
}

// quiet forgets what has happened so far.
func (b *batchNode) quiet() {
	synctest.Wait()
	for _, c := range b.subs {
		c.Pushes()
	}
	b.conns.writes.Store(0)
}

func (b *batchNode) publish(n int) {
	for range n {
		b.sent++
		if _, err := b.node.Publish(b.t.Context(), "ch", fmt.Append(nil, b.sent), nodetest.Keep(100, time.Hour)); err != nil {
			b.t.Fatal(err)
		}
		synctest.Wait()
	}
}

// expect tests that each subscriber got the n latest publications, in that many writes.
func (b *batchNode) expect(when string, n, writes int) {
	b.t.Helper()
	synctest.Wait()
	for i, c := range b.subs {
		pushes := c.Pushes()
		if len(pushes) != n {
			b.t.Fatalf("%s: subscriber %d got %d pushes, want %d", when, i, len(pushes), n)
		}
		for j, p := range pushes {
			if want := fmt.Sprint(b.sent - n + 1 + j); p.Pub == nil || string(p.Pub.Data) != want {
				b.t.Errorf("%s: got %+v, want publication %s", when, p, want)
			}
		}
	}
	if got := int(b.conns.writes.Swap(0)); got != writes*len(b.subs) {
		b.t.Errorf("%s: %d writes for %d subscribers, want %d each", when, got, len(b.subs), writes)
	}
}

// A channel with a window gets its publications in batches: when the time has
// come, or when they are enough.
func TestBatches(t *testing.T) {
	for _, o := range []gyro.SubscribeOptions{{}, {Recoverable: true}} {
		synctest.Test(t, func(t *testing.T) {
			o.BatchMaxDelay, o.BatchMaxSize = 7*time.Millisecond, 10
			b := newBatchNode(t, o, 5)
			b.publish(1)
			time.Sleep(4 * time.Millisecond)
			b.publish(2)
			time.Sleep(3*time.Millisecond - 1)
			b.expect("before", 0, 0)
			time.Sleep(time.Nanosecond)
			b.expect("after", 3, 1)
			b.publish(9)
			b.expect("nearly enough", 0, 0)
			b.publish(1)
			b.expect("enough", 10, 1)
			time.Sleep(time.Second)
			b.expect("much later", 0, 0)
		})
	}
}

// Either limit can stand alone.
func TestBatchesOfOneLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBatchNode(t, gyro.SubscribeOptions{BatchMaxSize: 3}, 2)
		b.publish(2)
		b.expect("not enough", 0, 0)
		time.Sleep(time.Second)
		b.expect("after a second", 2, 1)
		b.publish(3)
		b.expect("enough", 3, 1)
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBatchNode(t, gyro.SubscribeOptions{BatchMaxDelay: time.Hour}, 2)
		b.publish(63)
		b.expect("within the window", 0, 0)
		b.publish(1)
		b.expect("a full window", 64, 1)
		b.publish(1)
		time.Sleep(time.Minute)
		b.expect("after the longest window", 1, 1)
	})
}

// With BatchFlushLatest a batch is its newest publication, but who has a position gets all.
func TestBatchesOfTheLatest(t *testing.T) {
	for _, positioned := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBatchNode(t, gyro.SubscribeOptions{Positioned: positioned, BatchMaxDelay: 7 * time.Millisecond, BatchFlushLatest: true}, 3)
			of := func(n int) int {
				if positioned {
					return n
				}
				return min(n, 1)
			}
			b.publish(1)
			time.Sleep(7 * time.Millisecond)
			b.expect("one", 1, 1)
			b.publish(5)
			b.expect("held", 0, 0)
			time.Sleep(7 * time.Millisecond)
			b.expect("in time", of(5), 1)
			b.publish(64)
			b.expect("a full window", of(64), 1)
			// Who has to go gets the newest one before.
			b.publish(9)
			if err := b.node.Users().Unsubscribe(t.Context(), gyro.Target{User: "u0"}, "ch", nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			pushes := b.subs[0].Pushes()
			if n := len(pushes); n != of(9)+1 || string(pushes[n-2].Pub.Data) != fmt.Sprint(b.sent) || pushes[n-1].Unsubscribe == nil {
				t.Errorf("before the end: %+v", pushes)
			}
		})
	}
}

// By default nothing is held back.
func TestNoBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBatchNode(t, gyro.SubscribeOptions{}, 2)
		b.publish(3)
		b.expect("at once", 3, 3)
	})
}

// What is held back is not lost: a position that waits for it is right.
func TestBatchesAndPositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBatchNode(t, gyro.SubscribeOptions{Recoverable: true, BatchMaxDelay: 55 * time.Second}, 3)
		time.Sleep(time.Hour)
		for range 20 {
			b.publish(2)
			time.Sleep(55 * time.Second)
			b.expect("in time", 2, 1)
			time.Sleep(time.Minute + time.Second)
		}
	})
}

// Who is unsubscribed gets what is held back before; the others get it in time.
func TestBatchesAndUnsubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBatchNode(t, gyro.SubscribeOptions{BatchMaxDelay: 10 * time.Millisecond}, 3)
		b.publish(2)
		if err := b.node.Users().Unsubscribe(t.Context(), gyro.Target{User: "u0"}, "ch", nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		pushes := b.subs[0].Pushes()
		if len(pushes) != 3 || pushes[0].Pub == nil || pushes[1].Pub == nil || pushes[2].Unsubscribe == nil {
			t.Fatalf("got %+v, want two publications and the end", pushes)
		}
		b.conns.writes.Store(0)
		b.subs = b.subs[1:]
		b.expect("the others", 0, 0)
		time.Sleep(10 * time.Millisecond)
		b.expect("the others in time", 2, 1)
		// The last ones vanish with something held back; the channel begins anew.
		b.publish(1)
		for _, c := range b.subs {
			c.Vanish()
		}
		synctest.Wait()
		c := nodetest.Connect(t, b.node, "later")
		c.Subscribe("ch", "")
		time.Sleep(time.Second)
		if p := c.Pushes(); len(p) != 0 {
			t.Errorf("a subscriber got what was held back for others: %+v", p)
		}
	})
}
