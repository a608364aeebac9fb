package nats

import (
	"testing"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest"
)

var capabilities = brokertest.Capabilities{
	NoHistory: true, NoIdempotency: true, NoVersions: true, NoDelta: true,
	ValidChannel: func(ch string) bool { return validSubject(ch) && !hasWildcard(ch) },
	MaxPayload:   1000 << 10, // the server takes 1 MiB, envelope included
}

func TestConformance(t *testing.T) {
	url := startServer(t, nil).ClientURL()
	brokertest.RunBroker(t, func(t testing.TB) broker.Broker { return newBroker(t, Config{URL: url}) }, capabilities)
}

func TestConformanceWildcards(t *testing.T) {
	url := startServer(t, nil).ClientURL()
	caps := capabilities
	caps.RealChannel = true
	brokertest.RunBroker(t, func(t testing.TB) broker.Broker {
		return newBroker(t, Config{URL: url, AllowWildcards: true})
	}, caps)
}
