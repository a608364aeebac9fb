package memory_test

import (
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest"
	"github.com/gyrohq/gyro/broker/memory"
)

func TestBrokerConformance(t *testing.T) {
	brokertest.RunBroker(t, func(testing.TB) broker.Broker { return memory.New(memory.Config{}) },
		brokertest.Capabilities{Virtual: true, SuppressedRenews: true})
}

func TestPresenceConformance(t *testing.T) {
	for _, ttl := range []time.Duration{0, 5 * time.Second} {
		want := ttl
		if want == 0 {
			want = time.Minute
		}
		brokertest.RunPresence(t, func(testing.TB) broker.PresenceManager {
			return memory.NewPresence(memory.Config{PresenceTTL: ttl})
		}, want, brokertest.Capabilities{Virtual: true})
	}
}
