//go:build linux

package million

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/gyrohq/gyro/e2e/million/internal/climb"
	"github.com/gyrohq/gyro/e2e/million/internal/load"
	"github.com/gyrohq/gyro/e2e/million/internal/plan"
	"github.com/gyrohq/gyro/e2e/million/internal/report"
)

// borne bounds the 99th percentile of delivery times of a rate that is borne.
const borne = 200 * time.Millisecond

var publishing = Phase{Name: "publish", Title: "Publish at rising rates", Run: func(ctx context.Context, s *Stand) (*report.Section, error) {
	out := &section{}
	for _, class := range []plan.Class{plan.One, plan.Hundred, plan.Crowd} {
		if err := s.rise(ctx, out, class); err != nil {
			return &out.Section, fmt.Errorf("%v: %w", class, err)
		}
	}
	return &out.Section, nil
}}

// mostChannels bounds the channels of a class, each with a history in Redis.
const mostChannels = 2000

// Some returns up to so many channels of a class.
func (s *Stand) Some(class plan.Class, most int) []plan.Channel {
	channels := make([]plan.Channel, min(most, s.Plan.Channels(class)))
	for i := range channels {
		channels[i] = plan.At(class, i)
	}
	return channels
}

func (s *Stand) rise(ctx context.Context, out *section, class plan.Class) error {
	channels := s.Some(class, mostChannels)
	subscribers := s.Plan.Subscribers(channels[0])
	// From some thousand deliveries per second on. The first publications make histories in Redis, and do not count.
	first := map[plan.Class]float64{plan.One: 2000, plan.Hundred: 10_000, plan.Crowd: 30_000}[class] / float64(subscribers)
	if _, err := s.Step(ctx, Publication{Channels: channels, Rate: first, For: s.options.Step / 2}); err != nil {
		return err
	}
	search := climb.New(first, 1.6, 2, s.options.Rates)
	curve := report.Curve{Name: fmt.Sprintf("%d subscribers", subscribers)}
	var best *Step
	for rate, ok := search.Next(); ok; rate, ok = search.Next() {
		step, err := s.try(ctx, Publication{Channels: channels, Rate: rate, For: s.options.Step})
		if err != nil {
			return err
		}
		s.Say("%v: %.1f publications/s, %.0f deliveries/s, p50 %.1f ms, p99 %.1f ms, processors: nodes %.2f redis %.2f clients %.2f publisher %.2f rest %.2f",
			class, rate, step.Delivered, step.P50, step.P99, step.Spent.Servers, step.Spent.Redis, step.Spent.Load, step.Spent.Driver, step.Spent.Kernel)
		curve.Points = append(curve.Points, report.Point{X: step.Delivered, Y: step.P99})
		bore := step.P99 <= float64(borne.Milliseconds())
		if bore && (best == nil || step.Delivered > best.Delivered) {
			best = step
		}
		search.Enter(bore)
	}
	out.Curves = append(out.Curves, curve)
	name := fmt.Sprintf("%d subscribers: ", subscribers)
	if best == nil {
		out.note(name+"no rate", fmt.Sprintf("p99 is above %v at %.2g publications/s already", borne, first))
		return nil
	}
	rate, limited := search.Best()
	out.add(name+"channels", float64(len(channels)), "")
	out.add(name+"publications", rate, "1/s")
	out.add(name+"deliveries", best.Delivered, "1/s")
	out.add(name+"p50", best.P50, "ms")
	out.add(name+"p99", best.P99, "ms")
	deliveries := max(1, best.Delivered)
	out.add(name+"CPU of a delivery: nodes", 1e6*best.Spent.Servers/deliveries, "us")
	out.add(name+"CPU of a delivery: Redis", 1e6*best.Spent.Redis/deliveries, "us")
	out.add(name+"CPU of a delivery: clients", 1e6*best.Spent.Load/deliveries, "us")
	out.add(name+"Redis commands of a publication", best.Spent.Commands/rate, "")
	out.note(name+"limited by", best.Spent.limit(limited))
	return nil
}

// try tries a rate once more if it was nearly borne: if the machine does something else for a moment, one second of the
// few is late.
func (s *Stand) try(ctx context.Context, p Publication) (*Step, error) {
	step, err := s.Step(ctx, p)
	if most := float64(borne.Milliseconds()); err != nil || step.P99 <= most || step.P99 > 2*most {
		return step, err
	}
	again, err := s.Step(ctx, p)
	if err != nil || again.P99 < step.P99 {
		return again, err
	}
	return step, nil
}

// limit names the resource that is full.
func (s Spent) limit(limited bool) string {
	full := func(busy float64) bool { return busy > 0.9 }
	parts := fmt.Sprintf("nodes %.2f, Redis %.2f, clients %.2f, publisher %.2f, rest of the machine %.2f processors", s.Servers, s.Redis, s.Load, s.Driver, s.Kernel)
	switch {
	case !limited:
		return "nothing yet: the rates ended (" + parts + ")"
	case s.Busy > 0.9*float64(runtime.NumCPU()):
		return fmt.Sprintf("the %d processors of the machine: %s", runtime.NumCPU(), parts)
	case full(s.MostRedis):
		return "one Redis shard, which has one processor: " + parts
	case full(s.MostServer):
		return "one node, which has one processor: " + parts
	}
	return "bursts and waiting, with processors left: " + parts
}

type Step struct {
	Sent      Sent
	Delivered float64 // per second, from the first publication to the last delivery
	P50, P99  float64 // milliseconds from when publications were due to their deliveries
	Spent     Spent
	Whole     bool // all deliveries came
}

func (s *Stand) Step(ctx context.Context, p Publication) (*Step, error) {
	first, err := s.Order(ctx, load.Order{Reset: true})
	if err != nil {
		return nil, err
	}
	before := s.Measure()
	sent, err := s.Publisher.Publish(ctx, p)
	if err != nil {
		return nil, err
	}
	got := func(t *Total) uint64 {
		return t.Recoverable.Received + t.Plain.Received - first.Recoverable.Received - first.Plain.Received
	}
	_, err = s.Await(ctx, settleTime, func(t *Total) bool { return got(t) >= sent.Deliveries })
	whole := err == nil
	if err != nil && !errors.Is(err, errLate) {
		return nil, err
	}
	spent := s.Measure().Since(before)
	t, err := s.Order(ctx, load.Order{Latencies: true, Issued: s.Publisher.Issued()})
	if err != nil {
		return nil, err
	}
	step := &Step{Sent: sent, Spent: spent, Whole: whole, Delivered: float64(got(t)) / spent.Seconds}
	step.P50, step.P99 = float64(t.Deliveries.ValueAtQuantile(50))/1000, float64(t.Deliveries.ValueAtQuantile(99))/1000
	if !whole || t.Deliveries.TotalCount() == 0 {
		step.P99 = math.Max(step.P99, float64(settleTime.Milliseconds()))
	}
	return step, nil
}
