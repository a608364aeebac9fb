//go:build linux

package million

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gyrohq/gyro/e2e/million/internal/load"
	"github.com/gyrohq/gyro/e2e/million/internal/proc"
	"github.com/gyrohq/gyro/e2e/million/internal/process"
	"github.com/gyrohq/gyro/e2e/million/internal/report"
)

// Phase is a part of a run. All phases have the same connections.
type Phase struct {
	Name  string // for Options.Phases
	Title string // for the table
	// Run returns the rows of the table, and also the rows so far if it fails.
	Run func(ctx context.Context, s *Stand) (*report.Section, error)
}

// phases in their order. The first ones, up to connecting, are never left out.
var phases = []Phase{empty, connecting, idle, publishing, reading, losingShard, slowShard, killing, draining, rolling}

type section struct{ report.Section }

func (s *section) add(name string, value float64, unit string) {
	s.Rows = append(s.Rows, report.Row{Name: name, Value: value, Unit: unit})
}

func (s *section) note(name, text string) {
	s.Rows = append(s.Rows, report.Row{Name: name, Text: text})
}

func (s *section) since(name string, begin time.Time) {
	s.add(name, time.Since(begin).Seconds(), "s")
}

func (s *section) spent(u Spent) {
	s.add("CPU of the nodes", u.Servers, "processors")
	s.add("CPU of Redis", u.Redis, "processors")
	s.add("CPU of the clients", u.Load, "processors")
	s.add("CPU of the publisher", u.Driver, "processors")
	s.add("CPU of the rest of the machine", u.Kernel, "processors")
	s.add("busiest node", u.MostServer, "processors")
	s.add("busiest Redis", u.MostRedis, "processors")
	s.add("Redis commands", u.Commands, "1/s")
	s.add("into Redis", u.In, "B/s")
	s.add("out of Redis", u.Out, "B/s")
	s.add("through the network", u.Network, "B/s")
}

func (s *section) latency(name string, h *hdrhistogram.Histogram) {
	if h.TotalCount() == 0 {
		return
	}
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 50}, {"p99", 99}, {"p99.9", 99.9}, {"max", 100}} {
		s.add(name+" "+q.name, float64(h.ValueAtQuantile(q.at))/1000, "ms")
	}
}

func (s *section) memory(m, before Memory) {
	const mb = 1 << 20
	s.add("memory of the nodes (PSS)", float64(m.Servers.PSS)/mb, "MB")
	s.add("memory of the nodes (RSS)", float64(m.Servers.RSS)/mb, "MB")
	s.add("largest node (PSS)", float64(m.MostServer.PSS)/mb, "MB")
	s.add("memory of Redis (PSS)", float64(m.Redis.PSS)/mb, "MB")
	s.add("memory of the clients (PSS)", float64(m.Load.PSS)/mb, "MB")
	s.add("kernel: slab", float64(m.Machine.Slab-before.Machine.Slab)/mb, "MB")
	s.add("kernel: TCP buffers", float64(m.Machine.TCP)/mb, "MB")
	s.add("kernel: TCP sockets", float64(m.Machine.Sockets), "")
	s.add("processes and kernel together", float64(m.Servers.PSS+m.Redis.PSS+m.Load.PSS+m.Driver.PSS+m.Machine.Slab-before.Machine.Slab+m.Machine.TCP)/mb, "MB")
	s.add("taken from the machine", float64(before.Machine.Available-m.Machine.Available)/mb, "MB")
}

const always = 2

var empty = Phase{Name: "empty", Title: "Without connections", Run: func(ctx context.Context, s *Stand) (*report.Section, error) {
	out := &section{}
	// The nodes need some time to find each other.
	if err := Pause(ctx, min(s.options.Step/2, s.options.Idle/8)); err != nil {
		return &out.Section, err
	}
	before := s.Measure()
	if err := Pause(ctx, min(5*s.options.Step/2, s.options.Idle/8)); err != nil {
		return &out.Section, err
	}
	out.spent(s.Measure().Since(before))
	s.empty = s.Memory()
	out.memory(s.empty, s.empty)
	out.add("places in the kernel's table of connections", float64(proc.Places()), "")
	return &out.Section, nil
}}

var connecting = Phase{Name: "connect", Title: "Connect all", Run: func(ctx context.Context, s *Stand) (*report.Section, error) {
	out := &section{}
	before := s.Measure()
	if err := parallel(s.Plan.Near(), s.Loads, func(l *Loader) error { return s.connect(ctx, l) }); err != nil {
		return &out.Section, err
	}
	spent := s.Measure().Since(before)
	t, err := s.Order(ctx, load.Order{Latencies: true, Reset: true, Where: true})
	if err != nil {
		return &out.Section, err
	}
	s.complete, s.since = t, time.Now()
	out.add("connections, all subscribed", float64(t.Live), "")
	out.add("time to connect", spent.Seconds, "s")
	out.add("rate", float64(t.Live)/spent.Seconds, "1/s")
	each := 1e6 * spent.Seconds / float64(t.Live)
	out.add("CPU of a connection: node", spent.Servers*each, "us")
	out.add("CPU of a connection: Redis", spent.Redis*each, "us")
	out.add("CPU of a connection: client", spent.Load*each, "us")
	out.add("CPU of a connection: rest of the machine", spent.Kernel*each, "us")
	out.add("Redis commands of a connection", spent.Commands*spent.Seconds/float64(t.Live), "")
	out.latency("connect and subscribe", t.Joins)
	out.add("refused or cut", float64(sum(t.Refusals)+sum(t.Cuts)), "")
	for why, n := range t.Refusals {
		out.note(fmt.Sprintf("%d times", n), why)
	}
	out.memory(s.Memory(), s.empty)
	return &out.Section, nil
}}

// onWay bounds the connections on their way, while some load processes connect and while clients of a drained node come
// back: some for each of these processes whenever it runs. More would only take the caches of others.
const onWay = 512

func (s *Stand) connect(ctx context.Context, l *Loader) error {
	from, to := s.Plan.Range(l.Index)
	order := &load.Order{Connect: to - from, Window: onWay / s.Plan.Near()}
	for last, since := 0, time.Now(); ; {
		r, err := l.Do(order)
		if err != nil {
			return errors.Join(s.running(), err)
		}
		if r.Live == to-from {
			return nil
		}
		if r.Live > last {
			last, since = r.Live, time.Now()
		}
		if time.Since(since) > process.Patience {
			return fmt.Errorf("%s: %d of %d connections are subscribed, and no further one for %v; what failed: %v %v",
				l.Name, r.Live, to-from, process.Patience, r.Refusals, r.Cuts)
		}
		if err := errors.Join(s.running(), Pause(ctx, 50*time.Millisecond)); err != nil {
			return err
		}
	}
}

func sum(counts map[string]uint64) (n uint64) {
	for _, c := range counts {
		n += c
	}
	return n
}

var idle = Phase{Name: "idle", Title: "Idle", Run: func(ctx context.Context, s *Stand) (*report.Section, error) {
	out := &section{}
	// Garbage of the connecting is collected some seconds later.
	if err := Pause(ctx, min(5*time.Second, s.options.Idle/4)); err != nil {
		return &out.Section, err
	}
	first, err := s.Order(ctx, load.Order{})
	if err != nil {
		return &out.Section, err
	}
	before := s.Measure()
	if err := Pause(ctx, s.options.Idle); err != nil {
		return &out.Section, err
	}
	spent := s.Measure().Since(before)
	t, err := s.Order(ctx, load.Order{})
	if err != nil {
		return &out.Section, err
	}
	out.add("time", spent.Seconds, "s")
	out.add("connections", float64(t.Live), "")
	out.add("pings answered", float64(t.Pings-first.Pings), "")
	out.add("cut meanwhile", float64(t.Cut()-first.Cut()), "")
	out.spent(spent)
	out.memory(s.Memory(), s.empty)
	if t.Live != s.Plan.Conns || t.Cut() != first.Cut() {
		return &out.Section, fmt.Errorf("%d of %d connections are there, %d were cut: %v", t.Live, s.Plan.Conns, t.Cut()-first.Cut(), t.Cuts)
	}
	return &out.Section, nil
}}
