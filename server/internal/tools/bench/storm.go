package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/bench/internal/proc"
)

// Storm cuts all connections at once. All clients come back and recover the publications that they missed, while
// publications go on.
type Storm struct {
	Target
	Load // Messages go to every channel while its clients are away; Duration is not used

	Connections int
	Channels    int // clients are spread over so many; 0 for one each
	// Live is the rate of one more publisher, per second over all channels, from before the cut until all clients are
	// back. 0: none.
	Live float64
	Away time.Duration
}

// Run executes the scenario, as Fanout.Run.
func (s Storm) Run(ctx context.Context) (*Report, error) {
	if s.Channels == 0 {
		s.Channels = s.Connections
	}
	err := errors.Join(
		s.Target.validate(true), s.Load.validate(&s.Target),
		bounds("conns", s.Connections, 1, maxClients),
		bounds("channels", s.Channels, 1, s.Connections),
		bounds("live", s.Live, 0, maxRate),
	)
	if s.Duration != 0 {
		err = errors.Join(err, errors.New("duration: a storm has none"))
	}
	if s.Away < 0 {
		err = errors.Join(err, fmt.Errorf("away: %s is negative", s.Away))
	}
	if err != nil {
		return nil, err
	}
	publishers := s.Load.clients()
	if s.Live > 0 && !s.OverAPI {
		publishers++ // the last
	}
	r, err := newRun(ctx, &s.Target, s.Channels, s.Connections, publishers)
	if err != nil {
		return nil, err
	}
	r.recoverable = true
	s.Load.attach(r)
	live := s.attachLive(r)
	return r.execute("storm", func(r *run, rep *Report) error { return s.steps(r, rep, live) })
}

func (s *Storm) steps(r *run, rep *Report, live *producer) error {
	if err := r.subscribe(rep); err != nil {
		return err
	}
	if err := r.connectPublishers(); err != nil {
		return err
	}
	stopLive := r.startLive(live)
	defer stopLive()
	start := r.elapsed()
	burst := r.producers[:s.Publishers]
	// Recovery must not deliver it again, so it has to arrive before the cut.
	r.enter("publishing")
	if err := r.toEveryChannel(burst, 1); err != nil {
		return err
	}
	if err := r.drain(); err != nil {
		return err
	}
	err := s.storm(r, rep, burst)
	stopLive()
	rep.Publish = r.published(time.Duration(r.elapsed() - start))
	if err == nil {
		err = r.drain()
	}
	rep.Deliver = r.deliver(start)
	return err
}

func (s *Storm) attachLive(r *run) *producer {
	if s.Live == 0 {
		return nil
	}
	p := r.newProducer(s.Window, s.Live)
	p.turn = new(atomic.Uint64)
	if s.OverAPI {
		p.overAPI()
	} else {
		p.overClient(r.publishers[s.Publishers])
	}
	return p
}

// stop waits for the answers, and may be called again.
func (r *run) startLive(p *producer) (stop func()) {
	if p == nil {
		return func() {}
	}
	var stopped atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := p.produce(r.ctx, quota{stopped: &stopped}); err != nil {
			r.fail(err)
		}
	}()
	return func() {
		stopped.Store(true)
		<-done
	}
}

func (r *run) toEveryChannel(producers []*producer, n int) error {
	total := uint64(n) * uint64(len(r.channels))
	var wg sync.WaitGroup
	for i, p := range producers {
		share := total / uint64(len(producers))
		if uint64(i) < total%uint64(len(producers)) {
			share++
		}
		if share == 0 {
			continue
		}
		wg.Go(func() {
			if err := p.produce(r.ctx, quota{messages: share}); err != nil {
				r.fail(err)
			}
		})
	}
	wg.Wait()
	return r.err()
}

func (s *Storm) storm(r *run, rep *Report, burst []*producer) error {
	r.enter("cut off")
	r.closing.Store(true)
	away := time.Now()
	r.cut(r.subscribers)
	if s.Messages > 0 {
		if err := r.toEveryChannel(burst, s.Messages); err != nil {
			return err
		}
	}
	select {
	case <-time.After(time.Until(away.Add(s.Away))):
	case <-r.ctx.Done():
		return r.err()
	}
	r.gone.Wait()
	r.closing.Store(false)
	before, err := proc.Read(r.target.PID)
	if err != nil {
		return err
	}
	r.enter("returning")
	ret := newReturn(away)
	published := r.answered()
	start := time.Now()
	r.each(r.subscribers, &r.gone, func(c *client, ready func()) { ret.client(r, c, ready) })
	took := time.Since(start)
	rep.Storm = &StormResult{
		Clients: s.Connections, Returned: int(ret.returned.Load()), Recovered: int(ret.recovered.Load()),
		Retries: ret.retries.Load(), Missed: ret.missed.Load(), Live: r.answered() - published,
		AwaySeconds: seconds(start.Sub(away)), Seconds: seconds(took), PerSecond: perSecond(ret.returned.Load(), took),
		Away: ret.away.latency(), Return: ret.back.latency(),
	}
	if err := r.err(); err != nil {
		if last := ret.failure.Load(); last != nil {
			err = fmt.Errorf("%w; the last attempt that failed: %w", err, *last)
		}
		return err
	}
	rep.Storm.Server, err = r.since(before, uint64(s.Connections), took)
	return err
}

type homecoming struct {
	cut                                  time.Time // when the connections were cut
	returned, recovered, retries, missed atomic.Uint64
	failure                              atomic.Pointer[error] // of the latest attempt that failed
	away, back                           shared
}

func newReturn(cut time.Time) *homecoming {
	return &homecoming{cut: cut, away: shared{h: newHistogram()}, back: shared{h: newHistogram()}}
}

// A client waits between attempts: first retryFirst, then twice as long each time up to retryMost, always up to a half
// less at random.
const (
	retryFirst = 100 * time.Millisecond
	retryMost  = 5 * time.Second
)

func (h *homecoming) client(r *run, c *client, ready func()) {
	began := time.Now()
	wait := retryFirst
	for {
		back := false
		err := c.session(r.ctx, true, func(res *protocol.SubscribeResult) {
			back = true
			h.back.record(time.Since(began))
			h.away.record(time.Since(h.cut))
			h.missed.Add(uint64(len(res.Publications)))
			if res.Recovered {
				h.recovered.Add(1)
			}
			h.returned.Add(1)
			ready()
		})
		if back {
			r.ended(err)
			return
		}
		var refused *protocol.Error
		if errors.As(err, &refused) && !refused.Temporary {
			r.fail(fmt.Errorf("client %d returns: %w", c.index, err))
			return
		}
		h.retries.Add(1)
		h.failure.Store(&err)
		select {
		case <-time.After(wait - rand.N(wait/2)):
		case <-r.ctx.Done():
			return
		}
		wait = min(2*wait, retryMost)
	}
}
