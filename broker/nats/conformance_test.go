package nats

import (
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

var capabilities = brokertest.Capabilities{
	ValidChannel: func(ch string) bool { return validSubject(ch) && !hasWildcard(ch) },
	MaxPayload:   1000 << 10, // the server takes 1 MiB, envelope included
}

// patient makes a broker that does not take a busy machine for a fault.
func patient(t testing.TB, cfg Config) *Broker {
	cfg.DialTimeout, cfg.WriteTimeout, cfg.RequestTimeout = wait.Limit, wait.Limit, wait.Limit
	b := newBroker(t, cfg)
	b.monitor.period = wait.Limit / missing
	return b
}

func TestConformance(t *testing.T) {
	t.Parallel()
	url := startServer(t, nil).ClientURL()
	brokertest.RunBroker(t, func(t testing.TB) broker.Broker { return patient(t, Config{URL: url}) }, capabilities)
}

// TestConformanceFaults: what was acknowledged holds while the server is away, or told.
func TestConformanceFaults(t *testing.T) {
	t.Parallel()
	first := startServer(t, nil)
	port := first.Addr().(*net.TCPAddr).Port
	caps := capabilities
	caps.Fault = func(_ testing.TB, r *rand.Rand) {
		first.Shutdown()
		first.WaitForShutdown()
		time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
		first = startServer(t, &server.Options{Port: port})
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	brokertest.RunFaults(t, func(t testing.TB) broker.Broker {
		return newBroker(t, Config{URL: first.ClientURL(), Logger: quiet})
	}, nil, caps)
}

// TestConformanceControl: control messages of several nodes reach whom they are for.
func TestConformanceControl(t *testing.T) {
	t.Parallel()
	url := startServer(t, nil).ClientURL()
	brokertest.RunControl(t, func(t testing.TB) broker.Broker { return patient(t, Config{URL: url}) }, capabilities)
}

func TestConformanceWildcards(t *testing.T) {
	t.Parallel()
	url := startServer(t, nil).ClientURL()
	caps := capabilities
	caps.RealChannel = true
	brokertest.RunBroker(t, func(t testing.TB) broker.Broker {
		return patient(t, Config{URL: url, AllowWildcards: true})
	}, caps)
}
