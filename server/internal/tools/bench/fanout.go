package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gyrohq/gyro/server/internal/tools/bench/internal/proc"
	"github.com/gyrohq/gyro/server/internal/tools/wire"
)

// Load is the number of publishers, and the number and the rate of their publications.
type Load struct {
	Publishers int
	Messages   int           // per publisher; 0 for no limit, then Duration is required
	Duration   time.Duration // 0 for no limit
	Rate       float64       // publications per second, of all publishers; 0 for as many as Window allows
	Window     int           // publications in flight per publisher; over the API, in one batch request
	OverAPI    bool          // publish over the HTTP API, not over client connections
}

// The limits of Load and of the scenarios.
const (
	maxClients  = 1_000_000
	maxMessages = 1_000_000_000
	maxWindow   = 100_000
	maxRate     = 1e9
	maxKeys     = 1_000_000
)

func (l *Load) validate(t *Target) error {
	err := errors.Join(
		bounds("pub", l.Publishers, 1, 10_000),
		bounds("msgs", l.Messages, 0, maxMessages),
		bounds("rate", l.Rate, 0, maxRate),
		bounds("window", l.Window, 1, maxWindow),
	)
	if l.Duration < 0 {
		err = errors.Join(err, fmt.Errorf("duration: %s is negative", l.Duration))
	}
	if l.OverAPI {
		return errors.Join(err, validURL("api", t.API, "http", "https"))
	}
	if kind, _ := wire.KindOf(t.Transport); kind.OneWay {
		err = errors.Join(err, fmt.Errorf("via: clients of %s cannot publish, only the HTTP API can (--via api)", kind.Name))
	}
	return err
}

func (l *Load) ends() error {
	if l.Messages == 0 && l.Duration == 0 {
		return errors.New("msgs: is required if there is no duration")
	}
	return nil
}

func (l *Load) clients() int {
	if l.OverAPI {
		return 0
	}
	return l.Publishers
}

func (l *Load) attach(r *run) {
	for i := range l.Publishers {
		p := r.newProducer(l.Window, l.Rate/float64(l.Publishers))
		if l.OverAPI {
			p.overAPI()
			continue
		}
		p.overClient(r.publishers[i])
	}
}

func (r *run) connectPublishers() error {
	if len(r.publishers) == 0 {
		return nil
	}
	r.enter("connecting publishers")
	_, err := r.connect(r.publishers, &r.others)
	r.ready.Store(int64(len(r.subscribers)))
	return err
}

func (r *run) publish(l *Load) (*PublishResult, error) {
	r.enter("publishing")
	before, err := proc.Read(r.target.PID)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	q := quota{messages: uint64(l.Messages)}
	if l.Duration > 0 {
		q.until = start.Add(l.Duration)
	}
	var wg sync.WaitGroup
	for _, p := range r.producers {
		wg.Go(func() {
			if err := p.produce(r.ctx, q); err != nil {
				r.fail(err)
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	rep := r.published(took)
	if err := r.err(); err != nil {
		return rep, err
	}
	rep.Server, err = r.since(before, rep.Publications, took)
	return rep, err
}

func (r *run) published(took time.Duration) *PublishResult {
	rep := &PublishResult{Size: r.target.Size, Seconds: seconds(took)}
	merged := newHistogram()
	for _, p := range r.producers {
		n := p.answered.Load()
		if p.broadcast {
			n *= uint64(len(r.channels))
		}
		rep.Publications += n
		p.latencies.mu.Lock()
		merged.h.Merge(p.latencies.h.h)
		p.latencies.mu.Unlock()
	}
	rep.PerSecond = perSecond(rep.Publications, took)
	rep.Latency = merged.latency()
	rep.Requests = uint64(merged.h.TotalCount())
	return rep
}

// Fanout is a load of publications to channels with subscribers. Every delivery is accounted for.
type Fanout struct {
	Target
	Load
	Subscribers int
	Channels    int // publications and subscribers are spread evenly over so many
}

// Run executes the scenario. The report is nil only if the run cannot begin. If the run comes to its end, an error wraps
// ErrFailed.
func (f Fanout) Run(ctx context.Context) (*Report, error) {
	err := errors.Join(
		f.Target.validate(true), f.Load.validate(&f.Target),
		bounds("sub", f.Subscribers, 1, maxClients),
		bounds("channels", f.Channels, 1, f.Subscribers),
	)
	if err = errors.Join(err, f.Load.ends()); err != nil {
		return nil, err
	}
	r, err := newRun(ctx, &f.Target, f.Channels, f.Subscribers, f.Load.clients())
	if err != nil {
		return nil, err
	}
	f.Load.attach(r)
	return r.execute("fanout", f.steps)
}

func (f *Fanout) steps(r *run, rep *Report) error {
	if err := r.subscribe(rep); err != nil {
		return err
	}
	if err := r.connectPublishers(); err != nil {
		return err
	}
	before, err := proc.Read(r.target.PID)
	if err != nil {
		return err
	}
	start := r.elapsed()
	rep.Publish, err = r.publish(&f.Load)
	if err == nil {
		err = r.drain()
	}
	rep.Deliver = r.deliver(start)
	if err != nil {
		return err
	}
	rep.Deliver.Server, err = r.since(before, rep.Deliver.Received, time.Duration(r.elapsed()-start))
	return err
}

func (r *run) subscribe(rep *Report) error {
	if err := r.fill(); err != nil {
		return err
	}
	r.enter("connecting")
	before, err := proc.Read(r.target.PID)
	if err != nil {
		return err
	}
	if rep.Connect, err = r.connect(r.subscribers, &r.gone); err != nil {
		return err
	}
	rep.Connect.Server, err = r.since(before, uint64(len(r.subscribers)), time.Duration(rep.Connect.Seconds*float64(time.Second)))
	return err
}
