package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/channel"
)

func TestBrokerConformance(t *testing.T) {
	brokertest.RunBroker(t, func(testing.TB) broker.Broker { return memory.New(memory.Config{}) },
		brokertest.Capabilities{Virtual: true, SuppressedRenews: true})
}

func TestPresenceConformance(t *testing.T) {
	brokertest.RunPresence(t, func(_ testing.TB, ttl time.Duration) broker.PresenceManager {
		return memory.NewPresence(memory.Config{PresenceTTL: ttl})
	}, brokertest.Capabilities{Virtual: true})
}

// TestPresenceTTL: without a configuration an entry lives for a minute.
func TestPresenceTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := memory.NewPresence(memory.Config{})
		if err := p.Add(t.Context(), "ch", &channel.ClientInfo{Client: "c"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute - time.Millisecond)
		before, err := p.Stats(t.Context(), "ch")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
		after, err := p.Stats(t.Context(), "ch")
		if err != nil || before.Clients != 1 || after.Clients != 0 {
			t.Errorf("%+v, and after a minute %+v, %v", before, after, err)
		}
	})
}
