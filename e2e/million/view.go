//go:build linux

package million

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro/e2e/million/internal/load"
	"github.com/gyrohq/gyro/e2e/million/internal/proc"
	"github.com/gyrohq/gyro/e2e/million/internal/report"
)

// view shows a line for each event and, every second, a line with the state.
type view struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	open     bool // the last line may be overwritten
	phase    string
	began    time.Time
}

func newView(out io.Writer, terminal bool) *view {
	return &view{out: out, terminal: terminal, began: time.Now()}
}

func (s *Stand) Say(format string, args ...any) {
	v := s.view
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.open {
		fmt.Fprint(v.out, "\r\x1b[K")
		v.open = false
	}
	fmt.Fprintf(v.out, "%6.1fs  %s\n", time.Since(v.began).Seconds(), fmt.Sprintf(format, args...))
}

// status overwrites its last line on a terminal.
func (v *view) status(line string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	line = fmt.Sprintf("%6.1fs  %-8s %s", time.Since(v.began).Seconds(), v.phase, line)
	if v.terminal {
		fmt.Fprint(v.out, "\r\x1b[K"+line)
		v.open = true
		return
	}
	fmt.Fprintln(v.out, line)
}

func (v *view) enter(phase string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.phase = phase
}

func (v *view) now() (phase string, at float64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.phase, time.Since(v.began).Seconds()
}

type samples struct {
	mu   sync.Mutex
	list []report.Sample
}

func (s *samples) all() []report.Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list
}

func (s *Stand) watch(ctx context.Context) {
	before := proc.Available()
	last, lastTotal := s.light(), uint64(0)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		t, err := s.Order(ctx, load.Order{})
		if err != nil {
			continue // a phase that needs it tells of it
		}
		now, received := s.light(), t.Plain.Received+t.Recoverable.Received
		spent := now.Since(last)
		phase, at := s.view.now()
		one := report.Sample{
			At: at, Phase: phase, Live: t.Live, Waiting: t.Waiting, Rate: float64(received-lastTotal) / spent.Seconds,
			Servers: spent.Servers, Redis: spent.Redis, Load: spent.Load + spent.Driver, Kernel: spent.Kernel,
			Memory: max(0, before-now.Machine.Available),
		}
		last, lastTotal = now, received
		s.samples.mu.Lock()
		s.samples.list = append(s.samples.list, one)
		s.samples.mu.Unlock()
		s.view.status(line(t, one))
	}
}

func (s *Stand) light() Usage {
	u := Usage{At: time.Now(), Driver: proc.CPU(os.Getpid()), Machine: proc.ReadMachine()}
	for _, n := range s.Nodes {
		u.Servers += n.CPU()
	}
	for _, shard := range s.Shards {
		u.Redis += shard.CPU()
	}
	for _, l := range s.Loads {
		u.Load += l.CPU()
	}
	return u
}

func line(t *Total, s report.Sample) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d live, %d opening, %d waiting", t.Live, t.Opening, t.Waiting)
	fmt.Fprintf(&b, " | %.0f messages/s", s.Rate)
	if faults := t.Recoverable.Faults() + t.Plain.Faults(); faults > 0 || t.Cut() > 0 {
		fmt.Fprintf(&b, ", lost %d+%d, twice %d, late %d, cut %d", t.Recoverable.Lost, t.Plain.Lost, t.Recoverable.Twice+t.Plain.Twice,
			t.Recoverable.Late+t.Plain.Late, t.Cut())
	}
	fmt.Fprintf(&b, " | processors: nodes %.2f redis %.2f load %.2f rest %.2f | %d MB", s.Servers, s.Redis, s.Load, s.Kernel, s.Memory>>20)
	return b.String()
}
