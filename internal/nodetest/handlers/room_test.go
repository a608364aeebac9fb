package handlers

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
)

// TestRecoveriesWaitForRoom: five channels have missed more together than the queue takes. The client gets all when it
// reads, and before that the node reads one stream for it beside the queue.
func TestRecoveriesWaitForRoom(t *testing.T) {
	ends := map[string]func(t *testing.T, c *wstest.Client, ids []uint32){
		"reads": func(t *testing.T, c *wstest.Client, ids []uint32) {
			c.Stall(false)
			for _, id := range ids {
				r := c.Await(id)
				if r.Error != nil || r.Subscribe != nil && (!r.Subscribe.Recovered || len(r.Subscribe.Publications) != 6) {
					t.Errorf("reply %d: %v", id, r)
				}
			}
		},
		"goes": func(_ *testing.T, c *wstest.Client, _ []uint32) { c.Vanish() },
	}
	for name, end := range ends {
		for _, inline := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/inline=%v", name, inline), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { recoverFive(t, inline, end) })
			})
		}
	}
}

func recoverFive(t *testing.T, inline bool, end func(t *testing.T, c *wstest.Client, ids []uint32)) {
	var asked atomic.Int32
	node := nodetest.Run(t, gyro.Config{QueueMaxSize: 10_000, InlineHandlers: inline, Handlers: gyro.Handlers{
		Connecting: nodetest.As,
		Subscribe: func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			asked.Add(1)
			return gyro.SubscribeReply{Options: gyro.SubscribeOptions{Recoverable: true, Presence: true}}, nil
		},
		RPC: func(_ context.Context, _ *gyro.Client, e gyro.RPCEvent) ([]byte, error) { return e.Data, nil },
	}})
	c := nodetest.Connect(t, node, "u")
	var ids []uint32
	var frame []byte
	c.Stall(true)
	for i := range 5 {
		ch := fmt.Sprintf("ch%d", i)
		for range 6 {
			o := &gyro.PublishOptions{HistorySize: 10, HistoryTTL: time.Minute}
			if _, err := node.Publish(t.Context(), ch, []byte(`"`+strings.Repeat("x", 1000)+`"`), o); err != nil {
				t.Fatal(err)
			}
		}
		ids = append(ids, uint32(100+i))
		frame = fmt.Appendf(frame, `{"id":%d,"subscribe":{"channel":%q,"recover":true}}`+"\n", 100+i, ch)
	}
	ids = append(ids, 200)
	c.Raw(append(frame, `{"id":200,"rpc":{"data":1}}`...))
	synctest.Wait()
	if n := asked.Load(); n != 2 {
		t.Errorf("%d subscriptions began", n)
	}
	end(t, c, ids)
	synctest.Wait()
}
