package gyro

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gyrohq/gyro/internal/client"
	"github.com/gyrohq/gyro/internal/clocks"
	"github.com/gyrohq/gyro/internal/cluster"
	"github.com/gyrohq/gyro/internal/engines"
	"github.com/gyrohq/gyro/internal/flightrecorder"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/operations"
	"github.com/gyrohq/gyro/internal/procstat"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/internal/sharedpoll"
	"github.com/gyrohq/gyro/internal/tap"
	"github.com/gyrohq/gyro/internal/validate"
	"github.com/gyrohq/gyro/logging"
)

// part is something that a node starts and stops.
type part struct {
	name string
	// start is nil for a part that needs none. After an error it has left nothing running.
	start func() error
	// stop may be called without start.
	stop func(ctx context.Context) error
}

// inOrder returns the parts of the node. Run starts them in this order, so that each needs only parts before it.
// Shutdown stops them in the opposite order.
func (n *Node) inOrder() []part {
	return []part{
		{name: "log", stop: func(context.Context) error {
			_ = logging.Flush(n.cfg.Logger) // a log handler that blocks is no failure of the node
			return nil
		}},
		{"engines", n.connect, n.engines.Broker.Close},
		{name: "calls of engines", stop: quietly(n.engines.Close)},
		{"loops", surely(n.clients.Open), quietly(n.clients.Close)},
		{name: "shared polls", stop: quietly(n.polls.Close)},
		{name: "checks of positions", stop: quietly(n.positions.Close)},
		{"pulse", surely(n.pulse.Begin), quietly(n.pulse.End)},
		{name: "messages of other nodes", stop: quietly(n.cluster.Close)},
		{name: "clients", stop: func(ctx context.Context) error {
			n.clients.End(ctx)
			return nil
		}},
		{name: "membership of the cluster", stop: func(ctx context.Context) error { // Run starts it
			n.cluster.Leave(ctx)
			return nil
		}},
	}
}

func surely(start func()) func() error {
	return func() error {
		start()
		return nil
	}
}

func quietly(stop func()) func(context.Context) error {
	return func(context.Context) error {
		stop()
		return nil
	}
}

// startAll starts parts in their order. After an error it stops the parts before.
func startAll(parts []part) error {
	for i, p := range parts {
		if p.start == nil {
			continue
		}
		if err := p.start(); err != nil {
			return errors.Join(err, stopAll(context.Background(), parts[:i]))
		}
	}
	return nil
}

func stopAll(ctx context.Context, parts []part) error {
	var errs []error
	for _, p := range slices.Backward(parts) {
		errs = append(errs, p.stop(ctx))
	}
	return errors.Join(errs...)
}

// connect starts the controller first: a broker that is the controller needs that.
func (n *Node) connect() error {
	if err := n.cluster.Listen(); err != nil {
		return err
	}
	if err := n.engines.Broker.Run(n.fanout); err != nil {
		n.cluster.Close()
		return err
	}
	return nil
}

func (n *Node) newRules(c *clocks.Clocks) *validate.Rules {
	return &validate.Rules{
		Channel: n.cfg.Channel, Binary: n.cfg.Binary, Clocks: c, Log: n.cfg.Logger,
		Tracked: func(ch string) bool { return n.positions.Watches(ch) },
	}
}

func (n *Node) newEngines() *engines.Engines {
	e := engines.New(n.cfg.Broker, n.cfg.Presence, n.cfg.EngineConcurrency, engines.NewMeter(&n.cfg.Observer), n.cfg.Logger)
	e.MetaTTL = n.rules.MetaTTL
	e.Watch = func(ch string, metaTTL time.Duration) { n.positions.Watch(ch, metaTTL) }
	e.Fragile = func(ch string) { n.positions.Fragile(ch) }
	if n.cfg.Handlers.CacheEmpty != nil {
		e.Fill = engines.NewFiller(n.fill, n.cfg.InlineHandlers)
	}
	return e
}

func (n *Node) newPolls(loops []*loop.Loop) *sharedpoll.Polls {
	return &sharedpoll.Polls{Broker: n.engines.Broker, Table: sharedpoll.New(sharedpoll.Config{
		Loops: len(loops), Post: func(loop int, m *hub.Message) { loops[loop].PostMessage(m) }, Check: n.rules.Keyed,
		Concurrency: n.cfg.PollConcurrency, Polled: n.cfg.Observer.Polled, Log: n.cfg.Logger,
		Panicked: func(reason any, stack []byte) { n.clients.Panicked(reason, stack) },
	})}
}

func (n *Node) newClients(loops []*loop.Loop, settings *session.Config, recorder *flightrecorder.Recorder) *client.Registry {
	return client.New(client.Config{
		Loops: loops, Session: settings, Engines: n.engines, Polls: n.polls.Table, Application: (*application)(n),
		Observer: n.cfg.Observer, Log: n.cfg.Logger, Flight: recorder, Concurrency: n.cfg.Concurrency,
		InlineHandlers: n.cfg.InlineHandlers, GoroutineDriver: n.cfg.GoroutineDriver, UserConnectionLimit: n.cfg.UserConnectionLimit,
	})
}

func (n *Node) newFanout(loops []*loop.Loop, taps *tap.Table, ring *flightrecorder.Ring) *engines.Fanout {
	return &engines.Fanout{Routes: n.engines.Routes, Loops: loops, Taps: taps, Keyed: n.polls.Take, Lost: func(match func(ch string) bool) {
		ring.Lost()
		n.positions.Lost(match)
	}}
}

func (n *Node) newMember(recorder *flightrecorder.Recorder, process *procstat.Meter) *operations.Member {
	return &operations.Member{
		UID: n.uid, Name: cmp.Or(n.cfg.Name, n.uid), Version: n.cfg.Version, Started: time.Now(),
		Clients: n.clients, Routes: n.engines.Routes, Survey: n.answer, Process: process.Process,
		Inspector: &operations.Inspector{
			Node: n.uid, Clients: n.clients, Recorder: recorder, Nodes: n.Cluster().Nodes, Expressions: n.cfg.Expressions,
			Survey: func(ctx context.Context, op string, data []byte, to string) (map[string]cluster.Answer, error) {
				return n.cluster.Survey(ctx, op, data, to)
			},
		},
	}
}

func (n *Node) newCluster(c *clocks.Clocks) *cluster.Cluster {
	controller := cmp.Or(n.cfg.Controller, n.engines.Traits.Control)
	return cluster.New(cluster.Config{
		UID: n.uid, Controller: engines.MeterController(controller, engines.NewMeter(&n.cfg.Observer)),
		Handler: n.member, Clocks: c, Logger: n.cfg.Logger,
	})
}
