//go:build linux

package million

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/e2e/million/internal/load"
	"github.com/gyrohq/gyro/e2e/million/internal/plan"
	"github.com/gyrohq/gyro/e2e/million/internal/process"
)

type Stand struct {
	Plan   *plan.Plan
	Shards []*Shard
	Nodes  []*Server
	Loads  []*Loader
	// Publisher serves all phases, so that the numbers of a channel go on.
	Publisher *Publisher

	options Options
	config  string // path of the nodes' configuration
	logs    string
	view    *view
	samples samples
	empty   Memory // before the first connection
	calm    *Outcome
	// complete has the counts when all connections were made; nil after the first fault of a node.
	complete *Total
	since    time.Time
	last     atomic.Pointer[Total] // that load processes have reported
}

// start returns what it has started also if it fails.
func start(ctx context.Context, o Options) (*Stand, error) {
	s := &Stand{options: o, logs: filepath.Join(o.Out, "logs"), view: newView(o.View, o.Terminal)}
	var err error
	if s.Plan, err = plan.New(o.Conns, o.Nodes, o.Loads); err != nil {
		return s, err
	}
	if err := errors.Join(os.RemoveAll(s.logs), os.MkdirAll(s.logs, 0o750)); err != nil {
		return s, err
	}
	for range o.Shards {
		shard, err := newShard(s.logs)
		if err != nil {
			return s, err
		}
		if err := shard.Start(ctx); err != nil {
			return s, err
		}
		s.Shards = append(s.Shards, shard)
	}
	if err := s.configure(); err != nil {
		return s, err
	}
	for i := range o.Nodes {
		n, err := s.newServer(i)
		if err != nil {
			return s, err
		}
		s.Nodes = append(s.Nodes, n)
	}
	if err := parallel(4, s.Nodes, func(n *Server) error { return n.Start(ctx) }); err != nil {
		return s, err
	}
	for i := range s.Plan.Loads {
		l, err := s.startLoader(i)
		if err != nil {
			return s, err
		}
		s.Loads = append(s.Loads, l)
	}
	s.Publisher = newPublisher(s)
	_, err = s.Order(ctx, load.Order{})
	return s, err
}

func parallel[T any](most int, items []T, do func(T) error) error {
	slots, errs := make(chan struct{}, most), make([]error, len(items))
	var all sync.WaitGroup
	for i, item := range items {
		slots <- struct{}{}
		all.Go(func() {
			errs[i] = do(item)
			<-slots
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (s *Stand) stop() {
	var all []*process.Process
	for _, l := range s.Loads {
		all = append(all, l.Process)
	}
	for _, n := range s.Nodes {
		all = append(all, n.Current())
	}
	for _, shard := range s.Shards {
		all = append(all, shard.Current())
	}
	_ = parallel(len(all)+1, all, func(p *process.Process) error { // it never fails
		if p != nil {
			p.Kill()
		}
		return nil
	})
}

// settleTime bounds how long messages are on their way after the last publication.
const settleTime = 30 * time.Second

// Await polls the load processes until done says so, or for most. It returns the last total.
func (s *Stand) Await(ctx context.Context, most time.Duration, done func(*Total) bool) (*Total, error) {
	deadline := time.Now().Add(most)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		t, err := s.Order(ctx, load.Order{})
		if err != nil || done(t) {
			return t, err
		}
		if time.Now().After(deadline) {
			return t, errLate
		}
		if err := Pause(ctx, pause); err != nil {
			return t, err
		}
	}
}

var errLate = errors.New("it did not come in time")

// Pause fails if the run is ended meanwhile.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (s *Stand) running() error {
	for _, l := range s.Loads {
		if !l.Running() {
			return l.Ended()
		}
	}
	for _, n := range s.Nodes {
		if !n.Running() {
			return n.Ended()
		}
	}
	for _, shard := range s.Shards {
		if !shard.Running() {
			return shard.Ended()
		}
	}
	return nil
}

func (s *Stand) String() string {
	return fmt.Sprintf("%d connections, %d nodes, %d Redis shards, %d load processes", s.Plan.Conns, s.Plan.Nodes, len(s.Shards), s.Plan.Loads)
}
