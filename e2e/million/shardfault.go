//go:build linux

package million

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gyrohq/gyro/e2e/million/internal/load"
	"github.com/gyrohq/gyro/e2e/million/internal/plan"
	"github.com/gyrohq/gyro/e2e/million/internal/report"
)

// Shards with faults, counted from the last one.
const (
	lostShard   = 1
	slowedShard = 2
)

func (s *Stand) shard(fromLast int) *Shard { return s.Shards[max(0, len(s.Shards)-fromLast)] }

// channelsOf returns the shard's channels that are published to during faults.
func (s *Stand) channelsOf(shard *Shard) ([]plan.Channel, error) {
	var all []plan.Channel
	const prefix = "centrifugo.client."
	command := []string{"PUBSUB", "NUMSUB"}
	for _, b := range besides {
		all = append(all, s.Some(b.class, b.channels)...)
	}
	for _, ch := range all {
		command = append(command, prefix+ch.String())
	}
	answer, err := shard.Do(command...)
	if err != nil {
		return nil, err
	}
	subscribed, err := answer.AsIntMap()
	if err != nil {
		return nil, fmt.Errorf("%s: PUBSUB NUMSUB: %w", shard.Addr, err)
	}
	list := slices.DeleteFunc(slices.Clone(all), func(ch plan.Channel) bool { return subscribed[prefix+ch.String()] == 0 })
	if len(list) == 0 || len(list) == len(all) && len(s.Shards) > 1 {
		return nil, fmt.Errorf("%s has %d of %d channels", shard.Addr, len(list), len(all))
	}
	return list, nil
}

// keep makes a shard write its data to a file from now on, or stop that.
func (s *Shard) keep(ctx context.Context, keep bool) error {
	s.kept = keep
	if !keep {
		_, err := s.Do("CONFIG", "SET", "appendonly", "no")
		return err
	}
	if _, err := s.Do("CONFIG", "SET", "appendonly", "yes"); err != nil {
		return err
	}
	return s.Current().Await(ctx, func() error {
		switch info, err := s.Info(); {
		case err != nil:
			return err
		case info["aof_enabled"] != 1 || info["aof_rewrite_in_progress"] != 0 || info["aof_rewrite_scheduled"] != 0:
			return errors.New("its data are being written")
		}
		return nil
	})
}

var losingShard = Phase{Name: "shard", Title: "A Redis shard is killed, and started again with its data", Run: func(ctx context.Context, s *Stand) (*report.Section, error) {
	out := &section{}
	calm, err := s.calmly(ctx)
	if err != nil {
		return &out.Section, err
	}
	shard := s.shard(lostShard)
	apart, err := s.channelsOf(shard)
	if err != nil {
		return &out.Section, err
	}
	if err := shard.keep(ctx, true); err != nil {
		return &out.Section, err
	}
	var away time.Duration
	o, err := s.Try(ctx, Trial{Apart: apart, Fault: func(ctx context.Context) error {
		begin := time.Now()
		shard.Current().Kill()
		// As long as a supervisor takes.
		if err := Pause(ctx, s.options.Step/4); err != nil {
			return err
		}
		if err := shard.Start(ctx); err != nil {
			return err
		}
		away = time.Since(begin)
		return Pause(ctx, s.options.Step/2)
	}})
	if o == nil {
		return &out.Section, err
	}
	out.add("until the shard answers again", away.Seconds(), "s")
	out.apart(o, calm)
	out.add("clients that had to leave", float64(o.Cut), "")
	out.add("CPU of the nodes", o.Spent.Servers, "processors")
	out.outcome(o)
	return &out.Section, errors.Join(err, shard.keep(ctx, false))
}}

func (s *section) apart(o, calm *Outcome) {
	s.add("without the fault: accepted p99", quantile(calm.Sent.Accepted, 99), "ms")
	s.add("without the fault: delivered p99", quantile(calm.Deliveries, 99), "ms")
	for _, kind := range []struct {
		name string
		sent Sent
		h    *hdrhistogram.Histogram
	}{{"channels of other shards: ", o.Sent, o.Deliveries}, {"channels of the shard: ", o.Apart, o.Total.Apart}} {
		if kind.sent.Publications == 0 {
			continue
		}
		s.add(kind.name+"publications", float64(kind.sent.Publications), "")
		s.add(kind.name+"requests tried again", float64(kind.sent.Retries), "")
		s.latency(kind.name+"accepted", kind.sent.Accepted)
		s.latency(kind.name+"delivered", kind.h)
	}
}

// quantile turns microseconds into milliseconds.
func quantile(h *hdrhistogram.Histogram, at float64) float64 {
	return float64(h.ValueAtQuantile(at)) / 1000
}

// A slow shard does nothing for most of each slice of time.
const (
	stopped = 180 * time.Millisecond
	runs    = 20 * time.Millisecond
)

var slowShard = Phase{Name: "slow", Title: "A Redis shard is slow: it stands still for 180 ms, runs for 20 ms, and so on", Run: func(ctx context.Context, s *Stand) (*report.Section, error) {
	out := &section{}
	calm, err := s.calmly(ctx)
	if err != nil {
		return &out.Section, err
	}
	shard := s.shard(slowedShard)
	apart, err := s.channelsOf(shard)
	if err != nil {
		return &out.Section, err
	}
	theirs, others := &asked{times: load.NewHistogram()}, &asked{times: load.NewHistogram()}
	o, err := s.Try(ctx, Trial{Apart: apart, Fault: func(ctx context.Context) error {
		during, cancel := context.WithTimeout(ctx, 2*s.options.Step)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() { s.histories(during, apart, false, others) })
		all.Go(func() { s.histories(during, apart, true, theirs) })
		for during.Err() == nil {
			shard.Current().Signal(syscall.SIGSTOP)
			_ = Pause(during, stopped) // it goes on in any case
			shard.Current().Signal(syscall.SIGCONT)
			_ = Pause(during, runs)
		}
		all.Wait()
		return ctx.Err()
	}})
	if o == nil {
		return &out.Section, err
	}
	out.apart(o, calm)
	out.latency("history of channels of other shards", others.times)
	out.add("history of channels of other shards: errors", float64(others.failed), "")
	out.latency("history of channels of the shard", theirs.times)
	out.add("history of channels of the shard: errors", float64(theirs.failed), "")
	out.add("clients that had to leave", float64(o.Cut), "")
	out.outcome(o)
	return &out.Section, err
}}

const historyRate = 20

type asked struct {
	times  *hdrhistogram.Histogram
	failed int
}

// histories asks another node each time for a history of apart, or, unless named, of another channel.
func (s *Stand) histories(ctx context.Context, apart []plan.Channel, named bool, result *asked) {
	concerned := map[plan.Channel]bool{}
	for _, ch := range apart {
		concerned[ch] = true
	}
	var channels []plan.Channel
	for _, ch := range s.Some(plan.Hundred, 200) {
		if concerned[ch] == named {
			channels = append(channels, ch)
		}
	}
	for n := 0; len(channels) > 0 && Pause(ctx, time.Second/historyRate) == nil; n++ {
		begin := time.Now()
		body := fmt.Appendf(nil, reads[len(reads)-1].params, channels[n%len(channels)].String())
		text, err := s.Publisher.post(ctx, s.Nodes[n%len(s.Nodes)].Addr, "history", body)
		if ctx.Err() != nil {
			return // the answer does not count
		}
		if err == nil {
			err = s.checkRead("", channels[n%len(channels)], text) // it may have no history yet
		}
		if err != nil {
			result.failed++
			continue
		}
		_ = result.times.RecordValue(max(1, time.Since(begin).Microseconds())) // within its bounds
	}
}
