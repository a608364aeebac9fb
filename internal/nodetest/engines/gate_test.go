package engines

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/internal/nodetest"
)

// distant is a memory broker that seems to be reached over a network.
type distant struct {
	broker.Broker
	reads, active, most atomic.Int64
}

func (d *distant) History(ctx context.Context, ch string, f broker.HistoryFilter) (broker.History, error) {
	d.reads.Add(1)
	d.most.Store(max(d.most.Load(), d.active.Add(1)))
	defer d.active.Add(-1)
	time.Sleep(time.Second)
	return d.Broker.History(ctx, ch, f)
}

// The node puts a gate in front of an engine that is not in its process.
func TestEngineConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &distant{Broker: nodetest.Plain(memory.New(memory.Config{}))}
		node, err := gyro.New(gyro.Config{Broker: d, EngineConcurrency: 2})
		if err != nil {
			t.Fatal(err)
		}
		if err := node.Run(); err != nil {
			t.Fatal(err)
		}
		defer node.Shutdown(context.Background())
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				if _, err := node.History(t.Context(), []string{"a", "b", "c", "d"}[i%4], nil); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := d.reads.Load(); n > 8 {
			t.Errorf("%d reads of 4 channels", n)
		}
		if n := d.most.Load(); n > 2 {
			t.Errorf("%d reads at a time", n)
		}
	})
}
