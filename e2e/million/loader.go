//go:build linux

package million

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gyrohq/gyro/e2e/million/internal/load"
	"github.com/gyrohq/gyro/e2e/million/internal/process"
)

// Loader is a load process with a part of the connections.
type Loader struct {
	*process.Process
	Index int

	mu      sync.Mutex // one order at a time
	orders  *json.Encoder
	reports *json.Decoder
}

// LoadArgument is the first argument of this program as a load process.
const LoadArgument = "load"

func Load() error { return load.Run() }

func (s *Stand) startLoader(i int) (*Loader, error) {
	cmd := exec.Command(s.options.Self, LoadArgument)
	// There is little garbage beside the live memory; the processor is for the servers.
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=200")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	l := &Loader{Index: i, orders: json.NewEncoder(in), reports: json.NewDecoder(out)}
	if l.Process, err = process.Launch(s.logs, fmt.Sprintf("load-%d", i), cmd); err != nil {
		return nil, err
	}
	setup := load.Setup{Index: i, Conns: s.options.Conns, Loads: s.Plan.Loads, Secret: secret}
	for _, n := range s.Nodes {
		setup.Nodes = append(setup.Nodes, n.Addr)
	}
	// One source has ports for 28,000 connections to a node, and slows down beyond half of them.
	for j := range 4 {
		setup.Sources = append(setup.Sources, fmt.Sprintf("127.%d.%d.%d", 100+i/200, 1+i%200, 1+j))
	}
	return l, l.orders.Encode(setup)
}

func (l *Loader) Do(o *load.Order) (*load.Report, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := new(load.Report)
	if err := l.orders.Encode(o); err != nil {
		return nil, fmt.Errorf("%w: %w", l.Ended(), err)
	}
	if err := l.reports.Decode(r); err != nil {
		return nil, fmt.Errorf("%w: %w", l.Ended(), err)
	}
	return r, nil
}

type Total struct {
	load.Report
	Deliveries, Apart, Joins, Returns *hdrhistogram.Histogram
}

func (s *Stand) Order(ctx context.Context, o load.Order) (*Total, error) {
	return s.Orders(ctx, func(int) *load.Order { return &o })
}

func (s *Stand) Orders(ctx context.Context, order func(loader int) *load.Order) (*Total, error) {
	reports, errs := make([]*load.Report, len(s.Loads)), make([]error, len(s.Loads))
	var all sync.WaitGroup
	for i, l := range s.Loads {
		all.Go(func() { reports[i], errs[i] = l.Do(order(i)) })
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	t := &Total{Deliveries: load.NewHistogram(), Apart: load.NewHistogram(), Joins: load.NewHistogram(), Returns: load.NewHistogram()}
	t.Cuts, t.Refusals = map[string]uint64{}, map[string]uint64{}
	for i, r := range reports {
		if errs[i] != nil {
			return nil, errs[i]
		}
		t.add(r)
	}
	s.last.Store(t)
	return t, nil
}

func (t *Total) add(r *load.Report) {
	t.Live += r.Live
	t.Opening += r.Opening
	t.Waiting += r.Waiting
	t.Plain.Add(r.Plain)
	t.Recoverable.Add(r.Recoverable)
	t.Pings += r.Pings
	t.Bytes += r.Bytes
	t.Returned += r.Returned
	t.Recovered += r.Recovered
	t.Unrecovered += r.Unrecovered
	for _, pair := range []struct{ to, from map[string]uint64 }{{t.Cuts, r.Cuts}, {t.Refusals, r.Refusals}} {
		for k, n := range maps.All(pair.from) {
			pair.to[k] += n
		}
	}
	for _, pair := range []struct {
		to   *hdrhistogram.Histogram
		from *hdrhistogram.Snapshot
	}{{t.Deliveries, r.Delivery}, {t.Apart, r.Apart}, {t.Joins, r.Joining}, {t.Returns, r.Return}} {
		if pair.from != nil {
			pair.to.Merge(hdrhistogram.Import(pair.from))
		}
	}
	if len(r.Where) > 0 {
		if t.Where == nil {
			t.Where = make([]int, len(r.Where))
		}
		for i, n := range r.Where {
			t.Where[i] += n
		}
	}
}

// Cut is how many connections and subscriptions have ended since the run began.
func (t *Total) Cut() uint64 { return sum(t.Cuts) }

// Ended counts the subscriptions that the server has ended without their connections.
func (t *Total) Ended() (n uint64) {
	for why, count := range t.Cuts {
		if strings.HasPrefix(why, load.Unsubscribe) {
			n += count
		}
	}
	return n
}
