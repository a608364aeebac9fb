//go:build linux

package million

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/gyrohq/gyro/e2e/million/internal/load"
	"github.com/gyrohq/gyro/e2e/million/internal/proc"
	"github.com/gyrohq/gyro/e2e/million/internal/report"
)

// ErrFaults says that something was lost, came twice or out of order on channels with a history.
var ErrFaults = errors.New("messages were lost, came twice or out of order, or subscribers were told that they were lost")

// Run runs all phases, and ends what it has started. A failure leaves a report, too.
func Run(ctx context.Context, o Options) (*report.Report, error) {
	o.defaults()
	chosen, err := choose(o.Phases)
	if err == nil {
		err = o.check()
	}
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Out, 0o750); err != nil {
		return nil, err
	}
	began := time.Now()
	s, err := start(ctx, o)
	defer s.stop()
	if err != nil {
		return nil, err
	}
	s.Say("%v: all processes run", s)
	if places := proc.Places(); places > 0 && int64(o.Conns) > places {
		s.Say("the kernel's table of connections has %d places for %d sockets: looking them up takes processor time (docs/million.md)", places, 2*o.Conns)
	}
	watching, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(watching)
	}()
	r := &report.Report{
		Title: s.String(), Began: began, Memory: proc.Available(), Processors: runtime.NumCPU(), Kernel: kernel(),
		Conns: o.Conns, Nodes: o.Nodes, Shards: o.Shards, Loads: s.Plan.Loads,
	}
	failed := s.phases(ctx, chosen, r)
	cancel()
	<-watched
	r.Samples = s.samples.all()
	if failed == nil && (!r.Recoverable.OK() || r.Unrecovered > 0) {
		failed = ErrFaults // no fault of a run makes the engine lose anything, so no client may be told so
	}
	if failed != nil {
		r.Failure = failed.Error()
	}
	r.Seconds = time.Since(began).Seconds()
	return r, errors.Join(failed, r.Write(o.Out))
}

func choose(names []string) ([]Phase, error) {
	if len(names) == 0 {
		return phases, nil
	}
	chosen := slices.Clone(phases[:always])
	for _, p := range phases[always:] {
		if slices.Contains(names, p.Name) {
			chosen = append(chosen, p)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(phases, func(p Phase) bool { return p.Name == name }) {
			var known []string
			for _, p := range phases {
				known = append(known, p.Name)
			}
			return nil, fmt.Errorf("there is no phase %q; there are %q", name, known)
		}
	}
	return chosen, nil
}

// phases runs phases. After a failed one the others run as well, as long as all clients and processes are there.
func (s *Stand) phases(ctx context.Context, list []Phase, r *report.Report) error {
	var failed error
	for _, p := range list {
		s.view.enter(p.Name)
		began := time.Now()
		section, err := p.Run(ctx, s)
		section.Name, section.Title, section.Seconds = p.Name, p.Title, time.Since(began).Seconds()
		if err != nil {
			section.Failure = err.Error()
		}
		r.Sections = append(r.Sections, *section)
		if err == nil {
			continue
		}
		failed = errors.Join(failed, fmt.Errorf("%s: %w", p.Name, err))
		if ctx.Err() != nil || s.running() != nil {
			break
		}
		if t, err := s.Order(ctx, load.Order{}); err != nil || t.Live < s.Plan.Conns {
			break
		}
	}
	// Also after a failure, and after Ctrl-C.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	t, err := s.Order(last, load.Order{})
	if err != nil {
		return errors.Join(failed, err)
	}
	r.Recoverable, r.Plain = t.Recoverable, t.Plain
	r.Cuts, r.Refusals, r.Pings = t.Cuts, t.Refusals, t.Pings
	r.Returned, r.Recovered, r.Unrecovered = t.Returned, t.Recovered, t.Unrecovered
	return failed
}

func kernel() string {
	text, _ := os.ReadFile("/proc/sys/kernel/osrelease") // empty if it is hidden
	return string(text[:max(0, len(text)-1)])
}
