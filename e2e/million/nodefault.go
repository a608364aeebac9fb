//go:build linux

package million

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/gyrohq/gyro/e2e/million/internal/load"
	"github.com/gyrohq/gyro/e2e/million/internal/process"
	"github.com/gyrohq/gyro/e2e/million/internal/report"
)

const (
	killed  = 0
	drained = 1
)

// nodeFault returns a phase with a fault of nodes, unless there is one node only. fault adds its duration, found the
// results.
func nodeFault(name, title string, fault func(context.Context, *Stand, *section) error, found func(out *section, o, calm *Outcome)) Phase {
	return Phase{Name: name, Title: title, Run: func(ctx context.Context, s *Stand) (*report.Section, error) {
		out := &section{}
		if len(s.Nodes) == 1 {
			out.note("left out", "there is one node only")
			return &out.Section, nil
		}
		calm, err := s.calmly(ctx)
		if err == nil {
			err = Pause(ctx, time.Until(s.since.Add(s.options.stand)))
		}
		if err != nil {
			return &out.Section, err
		}
		if t := s.last.Load(); s.complete != nil {
			out.since("before it all connections stood for", s.since)
			out.add("pings answered meanwhile", float64(t.Pings-s.complete.Pings), "")
			out.add("cut meanwhile", float64(t.Cut()-t.Ended()-s.complete.Cut()+s.complete.Ended()), "")
			s.complete = nil
		}
		o, err := s.Try(ctx, Trial{Fault: func(ctx context.Context) error { return fault(ctx, s, out) }})
		if o == nil {
			return &out.Section, err
		}
		found(out, o, calm)
		out.outcome(o)
		return &out.Section, err
	}}
}

// shun makes the load balancer avoid a node, or none if node is negative.
func (s *Stand) shun(ctx context.Context, node int) error {
	o := load.Order{Open: true}
	if node >= 0 {
		o.Avoid = []int{node}
	}
	for i, n := range s.Nodes {
		n.down.Store(i == node)
	}
	_, err := s.Order(ctx, o)
	return err
}

// emptied waits until a node's clients are subscribed again, but for so many missing ones.
func (s *Stand) emptied(ctx context.Context, had int, cut uint64, missing int) error {
	for deadline := time.Now().Add(returnTime); ; {
		// The load balancer asks all the time.
		t := s.last.Load()
		if t.Cut()-t.Ended() >= cut+uint64(had) && t.Live >= s.Plan.Conns-missing {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d clients are back after %v; what failed: %v", t.Live, s.Plan.Conns, returnTime, t.Refusals)
		}
		if err := Pause(ctx, balancePause); err != nil {
			return err
		}
	}
}

var killing = nodeFault("kill", "A node is killed, and started again", func(ctx context.Context, s *Stand, out *section) error {
	// They go to all other nodes, and not most of them to one: with more on their way each node has several to serve when it runs.
	t, err := s.Order(ctx, load.Order{Where: true, Window: 4 * onWay / s.Plan.Near()})
	if err != nil {
		return err
	}
	n, begin := s.Nodes[killed], time.Now()
	n.Current().Kill()
	if err := s.shun(ctx, killed); err != nil {
		return err
	}
	if err := s.emptied(ctx, t.Where[killed], t.Cut()-t.Ended(), 0); err != nil {
		return err
	}
	out.since("until all are back on others", begin)
	begin = time.Now()
	if err := n.Start(ctx); err != nil {
		return err
	}
	out.since("until the node answers again", begin)
	return s.shun(ctx, -1)
}, func(out *section, o, calm *Outcome) {
	out.returns(o, calm, killed)
	out.spread(o, killed)
})

// draining stops a node as operators do: out of the load balancer, then SIGTERM.
var draining = nodeFault("drain", "A node is drained, and started again", func(ctx context.Context, s *Stand, out *section) error {
	r, err := s.restart(ctx, drained, 0)
	out.restart("", "all are back on others", r)
	return err
}, func(out *section, o, calm *Outcome) {
	out.returns(o, calm, drained)
	out.spread(o, drained)
})

type restart struct{ ended, up, back time.Duration }

// restart drains a node, starts it again, and waits until its clients are back but for so many. The load balancer avoids
// the node until it is up.
func (s *Stand) restart(ctx context.Context, node, missing int) (r restart, err error) {
	if err := s.shun(ctx, node); err != nil {
		return r, err
	}
	t, err := s.Order(ctx, load.Order{Where: true, Window: onWay / s.Plan.Near()})
	if err != nil {
		return r, err
	}
	n, begin := s.Nodes[node], time.Now()
	n.Current().Signal(syscall.SIGTERM)
	select {
	case <-n.Current().Exited():
	case <-ctx.Done():
		return r, ctx.Err()
	case <-time.After(process.Patience):
		return r, fmt.Errorf("%s has not ended %v after SIGTERM\n%s", n.Current().Name, process.Patience, n.Current().Tail())
	}
	r.ended = time.Since(begin)
	if err := n.Start(ctx); err != nil {
		return r, err
	}
	r.up = time.Since(begin)
	if err := s.shun(ctx, -1); err != nil {
		return r, err
	}
	err = s.emptied(ctx, t.Where[node], t.Cut()-t.Ended(), missing)
	r.back = time.Since(begin)
	s.Say("%s has ended after %.1f s, answers again after %.1f s, and its clients are back after %.1f s", n.Current().Name, r.ended.Seconds(), r.up.Seconds(), r.back.Seconds())
	return r, err
}

func (s *section) restart(of, back string, r restart) {
	s.add(of+"until the node has ended", r.ended.Seconds(), "s")
	s.add(of+"until it answers again", r.up.Seconds(), "s")
	s.add(of+"until "+back, r.back.Seconds(), "s")
}

// rolling restarts all nodes, one after the other, the next one when seven of eight clients of the last are back: the
// others wait for a second and more, and the machine would be idle.
var rolling = nodeFault("roll", "All nodes are restarted, one after the other", func(ctx context.Context, s *Stand, out *section) error {
	var slowest restart
	for i := range s.Nodes {
		r, err := s.restart(ctx, i, s.Plan.Conns/len(s.Nodes)/8)
		if err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
		slowest = restart{max(slowest.ended, r.ended), max(slowest.up, r.up), max(slowest.back, r.back)}
	}
	out.restart("slowest node: ", "seven of eight are back", slowest)
	return nil
}, func(out *section, o, calm *Outcome) {
	out.add("time", o.Spent.Seconds, "s")
	out.add("nodes", float64(len(o.Where)), "")
	out.add("of a node", o.Spent.Seconds/float64(len(o.Where)), "s")
	out.returns(o, calm, -1)
	out.spent(o.Spent)
})
