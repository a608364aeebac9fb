package engines

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
)

// chaos does random things to a node.
type chaos struct {
	t      *testing.T
	node   *gyro.Node
	random *rand.Rand
}

func (x *chaos) user() string    { return fmt.Sprint("u", x.random.IntN(5)) }
func (x *chaos) channel() string { return fmt.Sprint("ch", x.random.IntN(8)) }

// client lives a short life and does not wait for anything but its connect reply.
func (x *chaos) client() {
	c, err := wstest.Open(context.Background(), x.t, x.node, protocol.Encoding(x.random.IntN(2)))
	if err != nil {
		x.t.Error(err)
		return
	}
	c.Start(`"connect":{"token":"` + x.user() + `"}`)
	for range x.random.IntN(12) {
		ch := x.channel()
		switch x.random.IntN(8) {
		case 0, 1, 2:
			c.Start(`"subscribe":{"channel":"` + ch + `","recover":true}`)
		case 3:
			c.Start(`"unsubscribe":{"channel":"` + ch + `"}`)
		case 4:
			c.Start(`"publish":{"channel":"` + ch + `","data":1}`)
		case 5:
			c.Start(`"presence":{"channel":"` + ch + `"}`)
		case 6:
			c.Start(`"history":{"channel":"` + ch + `","limit":5}`)
		case 7:
			x.backend()
		}
	}
	if x.random.IntN(10) == 0 {
		c.Send(`{"id":1,"connect":{}}`) // a second one is the end
	} else {
		c.Vanish()
	}
}

// backend does one operation of the node.
func (x *chaos) backend() {
	var err error
	ctx, user, ch := context.Background(), x.user(), x.channel()
	switch x.random.IntN(6) {
	case 0, 1:
		_, err = x.node.Publish(ctx, ch, []byte(`2`), nodetest.Keep(10, time.Minute))
	case 2:
		err = x.node.Users().Subscribe(ctx, gyro.Target{User: user}, ch, &full)
	case 3:
		err = x.node.Users().Unsubscribe(ctx, gyro.Target{User: user}, ch, nil)
	case 4:
		err = x.node.Users().Disconnect(ctx, gyro.Target{User: user}, nil)
	case 5:
		_, err = x.node.Cluster().Nodes(ctx)
	}
	if err != nil {
		x.t.Error(err)
	}
}

func TestChaosLeavesNothing(t *testing.T) {
	t.Run("far", func(t *testing.T) { leaveNothing(t, false, full) })
	t.Run("local", func(t *testing.T) { leaveNothing(t, true, full) })
	t.Run("local and silent", func(t *testing.T) {
		leaveNothing(t, true, gyro.SubscribeOptions{Presence: true, Recoverable: true})
	})
}

// local does not block: the node is to do what it can at once.
type local struct{ *faulty }

func (local) Local() {}

func leaveNothing(t *testing.T, inline bool, o gyro.SubscribeOptions) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty()
		h := nodetest.Everything(o, gyro.PublishOptions{HistorySize: 10, HistoryTTL: time.Minute})
		joined := make(map[string]int) // by client: connected minus disconnected
		var mu sync.Mutex
		count := func(c *gyro.Client, by int) {
			mu.Lock()
			defer mu.Unlock()
			if joined[c.ID()] += by; joined[c.ID()] == 0 {
				delete(joined, c.ID())
			}
		}
		h.Connected = func(_ context.Context, c *gyro.Client) { count(c, 1) }
		h.Disconnected = func(_ context.Context, c *gyro.Client, _ gyro.DisconnectEvent) { count(c, -1) }
		cfg := gyro.Config{Logger: nodetest.Quiet, Broker: f, Presence: f, Handlers: h}
		if inline {
			cfg.Broker, cfg.Presence, cfg.InlineHandlers = local{f}, local{f}, true
		}
		node := nodetest.Run(t, cfg)
		var wg sync.WaitGroup
		const workers, lives = 16, 150
		for i := range workers {
			x := &chaos{t: t, node: node, random: rand.New(rand.NewPCG(2, uint64(i)))}
			wg.Go(func() {
				for range lives {
					x.client()
				}
			})
		}
		wg.Wait()
		wantEmpty(t, node, f, "ch0", "ch1", "ch2", "ch3", "ch4", "ch5", "ch6", "ch7")
		if i := nodetest.Info(t, node); i.NumClients != 0 || i.NumUsers != 0 {
			t.Errorf("there are %+v", i)
		}
		if len(joined) != 0 {
			t.Errorf("%d clients were not disconnected", len(joined))
		}
	})
}
