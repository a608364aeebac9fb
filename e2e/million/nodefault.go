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

// The nodes that faults happen to.
const (
	killed  = 0
	drained = 1
)

// alone notes that there is no other node to go to, and tells whether it is so.
func (s *Stand) alone(out *section) bool {
	if len(s.Nodes) > 1 {
		return false
	}
	out.note("left out", "there is one node only")
	return true
}

// shun has the load balancer send nobody to a node, or to all of them again if it is negative.
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

// emptied waits until the clients that a node had are subscribed again.
func (s *Stand) emptied(ctx context.Context, had int, cut uint64) error {
	for deadline := time.Now().Add(returnTime); ; {
		t, err := s.Order(ctx, load.Order{})
		if err != nil || t.Cut()-t.Ended() >= cut+uint64(had) && t.Live == s.Plan.Conns {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d clients are back after %v; what failed: %v", t.Live, s.Plan.Conns, returnTime, t.Refusals)
		}
		if err := Pause(ctx, balancePause); err != nil {
			return err
		}
	}
}

// killing kills a node, and starts it again when its clients are back on others.
var killing = Phase{Name: "kill", Title: "A node is killed, and started again", Run: func(ctx context.Context, s *Stand) (*report.Section, error) {
	out := &section{}
	if s.alone(out) {
		return &out.Section, nil
	}
	calm, err := s.calmly(ctx)
	if err != nil {
		return &out.Section, err
	}
	var back, up time.Duration
	n := s.Nodes[killed]
	o, err := s.Try(ctx, Trial{Fault: func(ctx context.Context) error {
		t, err := s.Order(ctx, load.Order{Where: true})
		if err != nil {
			return err
		}
		begin := time.Now()
		n.Current().Kill()
		if err := s.shun(ctx, killed); err != nil {
			return err
		}
		if err := s.emptied(ctx, t.Where[killed], t.Cut()-t.Ended()); err != nil {
			return err
		}
		back, begin = time.Since(begin), time.Now()
		if err := n.Start(ctx); err != nil {
			return err
		}
		up = time.Since(begin)
		return s.shun(ctx, -1)
	}})
	if o == nil {
		return &out.Section, err
	}
	out.add("until all are back on others", back.Seconds(), "s")
	out.returns(o, calm, killed)
	out.spread(o, killed)
	out.add("until the node answers again", up.Seconds(), "s")
	out.outcome(o)
	return &out.Section, err
}}

// draining stops a node as operators do, by SIGTERM, after the load balancer has taken it out, and starts it again.
var draining = Phase{Name: "drain", Title: "A node is drained, and started again", Run: func(ctx context.Context, s *Stand) (*report.Section, error) {
	out := &section{}
	if s.alone(out) {
		return &out.Section, nil
	}
	calm, err := s.calmly(ctx)
	if err != nil {
		return &out.Section, err
	}
	var r restart
	o, err := s.Try(ctx, Trial{Fault: func(ctx context.Context) (err error) {
		r, err = s.restart(ctx, drained)
		return err
	}})
	if o == nil {
		return &out.Section, err
	}
	out.add("until the node has ended", r.ended.Seconds(), "s")
	out.add("until it answers again", r.up.Seconds(), "s")
	out.add("until all are back on others", r.back.Seconds(), "s")
	out.returns(o, calm, drained)
	out.spread(o, drained)
	out.outcome(o)
	return &out.Section, err
}}

// restart is how long each part took, from the signal on.
type restart struct{ ended, up, back time.Duration }

// restart drains a node, starts it again, and waits until its clients are back. The load balancer sends it nobody until it is up.
func (s *Stand) restart(ctx context.Context, node int) (r restart, err error) {
	if err := s.shun(ctx, node); err != nil {
		return r, err
	}
	t, err := s.Order(ctx, load.Order{Where: true})
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
	err = s.emptied(ctx, t.Where[node], t.Cut()-t.Ended())
	r.back = time.Since(begin)
	return r, err
}

// rolling restarts all nodes, one after the other.
var rolling = Phase{Name: "roll", Title: "All nodes are restarted, one after the other", Run: func(ctx context.Context, s *Stand) (*report.Section, error) {
	out := &section{}
	if s.alone(out) {
		return &out.Section, nil
	}
	calm, err := s.calmly(ctx)
	if err != nil {
		return &out.Section, err
	}
	var slowest restart
	o, err := s.Try(ctx, Trial{Fault: func(ctx context.Context) error {
		for i := range s.Nodes {
			r, err := s.restart(ctx, i)
			if err != nil {
				return fmt.Errorf("node %d: %w", i, err)
			}
			slowest = restart{max(slowest.ended, r.ended), max(slowest.up, r.up), max(slowest.back, r.back)}
		}
		return nil
	}})
	if o == nil {
		return &out.Section, err
	}
	out.add("time", o.Spent.Seconds, "s")
	out.add("nodes", float64(len(s.Nodes)), "")
	out.add("of a node", o.Spent.Seconds/float64(len(s.Nodes)), "s")
	out.add("slowest node: until it has ended", slowest.ended.Seconds(), "s")
	out.add("slowest node: until it answers again", slowest.up.Seconds(), "s")
	out.add("slowest node: until all are back", slowest.back.Seconds(), "s")
	out.returns(o, calm, -1)
	out.spent(o.Spent)
	out.outcome(o)
	return &out.Section, err
}}
