package bench

import (
	"fmt"
	"time"
)

const progressEvery = 200 * time.Millisecond

func (r *run) enter(phase string) { r.phase.Store(&phase) }

func (r *run) reportProgress() {
	if r.target.Progress == nil {
		return
	}
	r.others.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		var before uint64
		last := time.Now()
		for {
			select {
			case <-r.ctx.Done():
				return
			case now := <-tick.C:
				t, _ := r.tally()
				r.target.Progress(r.line(t, t.received-before, now.Sub(last)))
				before, last = t.received, now
			}
		}
	})
}

func (r *run) line(t tally, more uint64, took time.Duration) string {
	phase := "starting"
	if p := r.phase.Load(); p != nil {
		phase = *p
	}
	line := fmt.Sprintf("%5.1f s  %s", time.Since(r.began).Seconds(), phase)
	if n := len(r.subscribers); n > 0 {
		line += fmt.Sprintf("  ready %d/%d", r.ready.Load(), n)
	}
	if len(r.producers) > 0 {
		line += fmt.Sprintf("  published %s", group(float64(r.answered())))
	}
	if t.received > 0 {
		line += fmt.Sprintf("  delivered %s (%s/s)", group(float64(t.received)), group(float64(more)/took.Seconds()))
	}
	if bad := t.duplicated + t.reordered + t.corrupt; bad > 0 {
		line += fmt.Sprintf("  faults %d", bad)
	}
	return line
}

func (r *run) answered() (n uint64) {
	for _, p := range r.producers {
		n += p.answered.Load()
	}
	return n
}
