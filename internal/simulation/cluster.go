package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/gyrohq/gyro"
)

// machine is the place of a node, which may crash and start again.
type machine struct {
	name               string
	lives              int
	node               *gyro.Node
	clock              *clock
	editions           map[string]edition // in force, by channel
	link               nodeLink
	down               bool // no node runs
	cut                bool // no client reaches it
	starting, stopping bool
}

// idle tells that no node runs, starts or stops.
func (m *machine) idle() bool { return m.down && !m.starting && !m.stopping }

// start starts a node on a machine, which is down until the node takes clients.
func (r *run) start(m *machine) {
	m.lives++
	m.editions = maps.Clone(r.editions)
	m.starting, m.stopping = true, false
	r.moment("node starts", m, nil)
	life := fmt.Sprintf("%s/%d", m.name, m.lives)
	m.link = r.engine.connect(life, func(call string) { r.moment(call, m, nil) })
	cfg := gyro.Config{
		Handlers: r.handlers(m), Clock: m.clock.now, Interceptors: []gyro.Interceptor{r.application.watch(m)}, Engine: m.link.engine(), Name: m.name, Logger: slog.New(&nodeLog{r, m, life}),
		Channel:      historyOf,
		PingInterval: 5 * time.Second, PongTimeout: 2 * time.Second, StaleCloseDelay: 3 * time.Second,
		PresenceUpdateInterval: 3 * time.Second, ExpiredCloseDelay: 2 * time.Second, ExpiredSubCloseDelay: 2 * time.Second, PositionCheckDelay: r.checkDelay(),
		QueueMaxSize: r.queue(), CommandLimit: r.plan.Network.Commands, RecoveryLimit: r.plan.Recover, FlightRecorder: -1, Loops: 1 + m.lives%3,
	}
	r.compose(m.link.engine(), &cfg)
	node, err := gyro.New(cfg)
	if err != nil {
		panic(err)
	}
	r.log.alias(node.UID(), life)
	m.node = node
	go func() {
		err := node.Run()
		r.tell("start "+life, func() {
			if err != nil && m.node == node && m.starting { // a node that crashed cannot start
				panic(err)
			}
			if r.log.add(life, "runs"); m.node == node && m.starting {
				m.down, m.starting = false, false
			}
		})
	}()
}

func (r *run) queue() int { return cmp.Or(r.plan.Network.Queue, 64<<10) }

// checkDelay: the simulated Redis loses messages without a word.
func (r *run) checkDelay() time.Duration {
	if r.plan.Engine != onReference {
		return 3 * time.Second
	}
	return cmp.Or(r.plan.Network.CheckDelay, 3*time.Second)
}

// crash ends a node at once: nothing of it reaches anybody any more.
func (r *run) crash(m *machine) {
	if m.idle() {
		return
	}
	m.down, m.starting, m.stopping = true, false, false
	r.log.add(m.name, "crashes")
	r.vanished.Store(true)
	m.link.kill()
	for _, c := range r.net.of(m) {
		c.reset()
	}
	r.end(m.node, time.Nanosecond, func() {})
}

// stop shuts a node down in order.
func (r *run) stop(m *machine) {
	if m.idle() || m.stopping {
		return
	}
	m.down, m.starting, m.stopping = true, false, true
	r.log.add(m.name, "stops")
	r.vanished.Store(true)
	r.moment("node stops", m, nil)
	node := m.node
	r.end(node, 5*time.Second, func() {
		if m.node == node {
			m.stopping = false
		}
	})
}

// drain sends the clients of a node away, and stops it then.
func (r *run) drain(m *machine) {
	if m.down {
		return
	}
	node := m.node
	r.log.add(m.name, "drains")
	go func() {
		_ = node.Drain(context.Background(), time.Second)
		r.tell("drained "+m.name, func() {
			if m.node == node && !m.down {
				r.stop(m)
			}
			if r.healed {
				r.restart(m)
			}
		})
	}()
}

func (r *run) end(node *gyro.Node, within time.Duration, then func()) {
	r.ending++
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		err := node.Shutdown(ctx)
		if err != nil { // it goes on
			err = node.Shutdown(context.Background())
		}
		r.tell("end "+node.UID(), func() {
			r.ending--
			then()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				r.log.add("end", "%v", err)
			}
		})
	}()
}
