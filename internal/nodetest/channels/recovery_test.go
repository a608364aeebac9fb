package channels

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
)

func recoverFrom(c *wstest.Client, tb testing.TB, epoch string, offset uint64) *protocol.SubscribeResult {
	tb.Helper()
	return c.Subscribe("ch", fmt.Sprintf(`"recover":true,"epoch":%q,"offset":%d`, epoch, offset))
}

func TestRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.Open(t, gyro.SubscribeOptions{Recoverable: true}, gyro.PublishOptions{})
		history := nodetest.Keep(3, time.Minute)
		c := nodetest.Connect(t, node, "u")
		res := c.Subscribe("ch", "")
		if !res.Recoverable || !res.Positioned || res.Epoch == "" || res.Offset != 0 || res.WasRecovering {
			t.Errorf("fresh: %+v", res)
		}
		nodetest.Publish(t, node, "ch", `1`, history)
		if p := nodetest.WantPub(t, c, `1`); p.Offset != 1 {
			t.Errorf("publication %+v", p)
		}
		c.Vanish()
		nodetest.Publish(t, node, "ch", `2`, history)
		nodetest.Publish(t, node, "ch", `3`, history)

		c = nodetest.Connect(t, node, "u")
		got := recoverFrom(c, t, res.Epoch, 1)
		if !got.Recovered || !got.WasRecovering || len(got.Publications) != 2 || string(got.Publications[1].Data) != `3` {
			t.Errorf("recovered %+v", got)
		}
		nodetest.Publish(t, node, "ch", `4`, history)
		nodetest.WantPub(t, c, `4`)
		c.Vanish()

		// Too old, and another epoch: nothing, and the client is told.
		for _, at := range []struct {
			epoch  string
			offset uint64
		}{{res.Epoch, 0}, {"other", 3}} {
			c = nodetest.Connect(t, node, "u")
			if got := recoverFrom(c, t, at.epoch, at.offset); got.Recovered || !got.WasRecovering || len(got.Publications) != 0 || got.Offset != 4 {
				t.Errorf("from %+v: %+v", at, got)
			}
			c.Vanish()
		}
		// Nothing missed.
		c = nodetest.Connect(t, node, "u")
		if got := recoverFrom(c, t, res.Epoch, 4); !got.Recovered || len(got.Publications) != 0 {
			t.Errorf("nothing missed: %+v", got)
		}
	})
}

func TestCacheRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.Open(t, gyro.SubscribeOptions{Recoverable: true, RecoveryMode: gyro.RecoverCache, AutoRecover: true}, gyro.PublishOptions{})
		for i := range 5 {
			nodetest.Publish(t, node, "ch", strconv.Itoa(i), nodetest.Keep(1, time.Minute))
		}
		res := nodetest.Connect(t, node, "u").Subscribe("ch", "")
		if len(res.Publications) != 1 || string(res.Publications[0].Data) != `4` || !res.Recovered {
			t.Errorf("got %+v", res)
		}
	})
}

// follower reads a channel by way of connections that break again and again, and
// checks that it sees every publication once and in order.
type follower struct {
	t      *testing.T
	node   *gyro.Node
	random *rand.Rand
	epoch  string
	offset uint64
	next   int
}

func (f *follower) take(p *protocol.Publication) {
	if string(p.Data) != strconv.Itoa(f.next) || p.Offset != f.offset+1 {
		f.t.Errorf("got %s at %d, want %d at %d", p.Data, p.Offset, f.next, f.offset+1)
	}
	f.next++
	f.offset = p.Offset
}

func (f *follower) follow(n int) {
	for f.next < n {
		c := wstest.Pipe(f.t, f.node)
		c.Connect(`"token":"u"`)
		res := recoverFrom(c, f.t, f.epoch, f.offset)
		f.epoch = res.Epoch
		if !res.Recovered {
			f.t.Errorf("not recovered: %+v", res)
			return
		}
		for _, p := range res.Publications {
			f.take(p)
		}
		for range f.random.IntN(20) {
			if f.next >= n {
				break
			}
			f.take(c.Pub())
		}
		c.Vanish()
	}
}

func TestRecoveryUnderFire(t *testing.T) {
	node := nodetest.Open(t, gyro.SubscribeOptions{Recoverable: true}, gyro.PublishOptions{})
	const publications, followers = 3000, 6
	var wg sync.WaitGroup
	for i := range followers {
		f := &follower{t: t, node: node, random: rand.New(rand.NewPCG(1, uint64(i)))}
		wg.Go(func() { f.follow(publications) })
	}
	for i := range publications {
		if _, err := node.Publish(context.Background(), "ch", strconv.AppendInt(nil, int64(i), 10), nodetest.Keep(publications, time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}
