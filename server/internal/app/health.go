package app

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/web"
)

// readiness returns the check of the gRPC health service, which answers like the endpoint of health.mode; nil: it
// answers for the process alone.
func (a *App) readiness() func() error {
	if a.cfg.Health.Mode == "live" {
		return nil
	}
	return func() error { return web.Failing(a.health()) }
}

var errShuttingDown = errors.New("shutting down")

// health returns the health of the parts. The node is not ready during a shutdown, and while a listener lacks
// descriptors.
func (a *App) health() []gyro.Health {
	parts := a.node.Health()
	parts[0].Err = cmp.Or(parts[0].Err, a.reserve.Err())
	if a.withdrawn.Load() {
		parts[0].Err = cmp.Or(parts[0].Err, errShuttingDown)
	}
	return parts
}

// ready is the node with the health of the server, so that metrics and admin interface agree with the readiness
// endpoint.
type ready struct {
	*gyro.Node
	app *App
}

// Health returns the health of the node's parts.
func (r ready) Health() []gyro.Health { return r.app.health() }

// withdrawal is the default of shutdown.delay if there are other nodes.
const withdrawal = 3 * time.Second

// withdraw reports that the node is not ready, and waits for shutdown.delay, in which load balancers send new clients to
// other nodes. Further calls do not wait.
func (a *App) withdraw(ctx context.Context) {
	if !a.withdrawn.CompareAndSwap(false, true) {
		return
	}
	nodes, _ := a.node.Cluster().Nodes(ctx) // an error means that ctx has ended, which ends the delay, too
	delay := delayOf(a.cfg, len(nodes))
	if delay <= 0 {
		return
	}
	a.log.Info("node is not ready any more, and goes on for shutdown.delay", logging.Milliseconds("delay", delay))
	select {
	case <-time.After(delay):
	case <-ctx.Done():
	}
}

func delayOf(cfg *config.Config, nodes int) time.Duration {
	delay := cfg.Shutdown.Delay
	if delay == 0 && cfg.Health.Enabled && nodes > 1 {
		delay = withdrawal
	}
	return min(delay, cfg.Shutdown.Timeout/4)
}
