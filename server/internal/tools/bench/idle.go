package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gyrohq/gyro/server/internal/tools/bench/internal/proc"
)

// Idle is a number of subscribed connections without publications.
type Idle struct {
	Target
	Connections int
	Channels    int           // connections are spread over so many; 0 for one each
	Duration    time.Duration // how long the connections stay; the run ends before if none is left
}

// Run executes the scenario, as Fanout.Run.
func (s Idle) Run(ctx context.Context) (*Report, error) {
	if s.Channels == 0 {
		s.Channels = s.Connections
	}
	err := errors.Join(
		s.Target.validate(true),
		bounds("conns", s.Connections, 1, maxClients),
		bounds("channels", s.Channels, 1, s.Connections),
	)
	if s.Duration <= 0 {
		err = errors.Join(err, fmt.Errorf("duration: %s is not positive", s.Duration))
	}
	if err != nil {
		return nil, err
	}
	r, err := newRun(ctx, &s.Target, s.Channels, s.Connections, 0)
	if err != nil {
		return nil, err
	}
	return r.execute("idle", s.steps)
}

func (s *Idle) steps(r *run, rep *Report) error {
	empty, err := proc.Read(r.target.PID)
	if err != nil {
		return err
	}
	if err := r.subscribe(rep); err != nil {
		return err
	}
	r.enter("idle")
	full, err := proc.Read(r.target.PID)
	if err != nil {
		return err
	}
	gone := make(chan struct{})
	r.others.Go(func() {
		r.gone.Wait()
		close(gone)
	})
	start := time.Now()
	select {
	case <-time.After(s.Duration):
	case <-gone: // nothing is left to hold
	case <-r.ctx.Done():
		return r.err()
	}
	took := time.Since(start)
	rep.Idle = &IdleResult{Seconds: seconds(took), Connections: s.Connections}
	for _, n := range r.lostConnections() {
		rep.Idle.Connections -= n
	}
	u, err := r.since(full, uint64(s.Connections), took)
	if u != nil {
		u.GrownBytes = u.MemoryBytes - empty.Memory
		u.BytesEach = u.GrownBytes / int64(s.Connections)
	}
	rep.Idle.Server = u
	return err
}
