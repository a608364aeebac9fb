package memory_test

import (
	"testing"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest"
	"github.com/gyrohq/gyro/broker/brokertest/maptest"
	"github.com/gyrohq/gyro/broker/memory"
)

func TestMapConformance(t *testing.T) {
	maptest.Run(t, func(testing.TB) broker.Broker { return memory.New(memory.Config{}) }, brokertest.Capabilities{Virtual: true})
}
