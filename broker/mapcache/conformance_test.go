package mapcache_test

import (
	"testing"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest"
	"github.com/gyrohq/gyro/broker/brokertest/maptest"
	"github.com/gyrohq/gyro/broker/mapcache"
	"github.com/gyrohq/gyro/broker/memory"
)

func cached(testing.TB) broker.Broker {
	return mapcache.New(memory.New(memory.Config{}), mapcache.Config{})
}

func TestBrokerConformance(t *testing.T) {
	brokertest.RunBroker(t, cached, brokertest.Capabilities{Virtual: true, SuppressedRenews: true})
}

func TestMapConformance(t *testing.T) {
	maptest.Run(t, cached, brokertest.Capabilities{Virtual: true})
}
