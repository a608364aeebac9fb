// Package push pushes metrics to receivers that do not scrape them.
package push

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/observe/metrics/graphite"
	"github.com/gyrohq/gyro/server/internal/observe/metrics/otlp"
)

// Node is the node that pushes.
type Node struct{ UID, Name, Version string }

// Pushers push metrics until Shutdown. The zero value pushes nothing.
type Pushers []interface{ Shutdown(ctx context.Context) }

func byOTLP(c *config.Config) bool { return c.OpenTelemetry.Enabled && c.OpenTelemetry.Metrics }

// Wanted tells whether the configuration asks to push metrics.
func Wanted(c *config.Config) bool { return byOTLP(c) || c.Graphite.Enabled }

// Check returns the reason why metrics cannot be pushed.
func Check(c *config.Config) error {
	if byOTLP(c) {
		return otlp.Check()
	}
	return nil
}

// Start begins to push, if the configuration asks for it. It does not check whether the receiver can be reached.
func Start(ctx context.Context, c *config.Config, gatherer prometheus.Gatherer, n Node, log *slog.Logger) (p Pushers, err error) {
	if byOTLP(c) {
		pusher, err := otlp.Start(ctx, otlp.Config{
			Gatherer: gatherer, Google: c.OpenTelemetry.GoogleCloudADCAuth, Node: n.UID, Version: n.Version, Logger: log,
		})
		if err != nil {
			return nil, err
		}
		p = append(p, pusher)
	}
	if g := &c.Graphite; g.Enabled {
		p = append(p, graphite.Start(graphite.Config{
			Gatherer: gatherer, Address: net.JoinHostPort(g.Host, strconv.Itoa(g.Port)), Prefix: g.Prefix, Node: n.Name,
			Interval: g.Interval, Tags: g.Tags, Logger: log,
		}))
	}
	return p, nil
}

const patience = 3 * time.Second

// Shutdown pushes once more, for 3 s at most, and stops. It fails no shutdown: errors go to the log.
func (p Pushers) Shutdown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, pusher := range p {
		pusher.Shutdown(ctx)
	}
}
