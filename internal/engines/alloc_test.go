package engines

import (
	"testing"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

func TestAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	g := limitBroker(still{}, 512)
	since := &channel.StreamPosition{Offset: 7, Epoch: "epoch"}
	if n := testing.AllocsPerRun(1000, func() {
		_, _ = g.History(t.Context(), "news:channel_1", broker.HistoryFilter{Since: since, Limit: 100})
	}); n > 0 {
		t.Errorf("%v allocations of a read that nobody shares", n)
	}
}
