package connections

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// pinged notes when frames come; it answers none.
type pinged struct {
	at chan time.Time
}

func (c *pinged) Write(frames [][]byte) (n int, err error) {
	for _, f := range frames {
		c.at <- time.Now()
		n += len(f)
	}
	return n, nil
}

func (c *pinged) Close(protocol.Disconnect, [][]byte) {}
func (c *pinged) Pause(bool)                          {}

// An interval below a second is kept to, and each ping is answered: clients are told of an interval of 1 s.
func TestPingsBelowASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval, pings = 150 * time.Millisecond, 40
		node := nodetest.Run(t, gyro.Config{
			PingInterval: interval, PongTimeout: interval / 2, Handlers: gyro.Handlers{Connecting: nodetest.As},
		})
		c := &pinged{at: make(chan time.Time, pings+1)}
		peer, err := node.Accept(context.Background(), c, transport.Info{Name: "test", Framer: wstest.Framer(protocol.JSON)})
		if err != nil {
			t.Fatal(err)
		}
		peer.Receive([]byte(`{"id":1,"connect":{"token":"u"}}`))
		connected := <-c.at
		last := <-c.at
		peer.Receive([]byte(`{}`))
		if first := last.Sub(connected); first < interval/2-50*time.Millisecond || first > interval+50*time.Millisecond {
			t.Errorf("first ping after %v", first)
		}
		for range pings - 1 {
			at := <-c.at
			if d := at.Sub(last); d < interval-50*time.Millisecond || d > interval+50*time.Millisecond {
				t.Errorf("a ping %v after the last one", d)
			}
			last = at
			peer.Receive([]byte(`{}`))
		}
		peer.Closed(nil)
	})
}
