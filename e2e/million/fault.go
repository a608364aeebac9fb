//go:build linux

package million

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gyrohq/gyro/e2e/million/internal/books"
	"github.com/gyrohq/gyro/e2e/million/internal/load"
	"github.com/gyrohq/gyro/e2e/million/internal/plan"
)

// besides are the publications during faults with up to lightly connections: channels of each class, and publications
// per second.
var besides = []struct {
	class    plan.Class
	channels int
	rate     float64
}{{plan.One, 500, 200}, {plan.Hundred, 200, 20}, {plan.Crowd, 25, 1}}

// lightly many connections leave most of a small machine to publications. With twice as many, phases publish half as
// much.
const lightly = 100_000

// Trial is a fault, or none, while messages are published.
type Trial struct {
	// Apart are the channels that the fault concerns, which are counted apart.
	Apart []plan.Channel
	// Fault returns when it is over.
	Fault func(ctx context.Context) error
}

type Outcome struct {
	Sent, Apart                                  Sent  // to channels that the fault does not concern, and to Trial.Apart
	Spent                                        Spent // while there was the fault
	Book                                         books.Book
	Cut, Ended, Returned, Recovered, Unrecovered uint64
	*Total
	Before *Total
}

const returnTime = 3 * time.Minute

// Try publishes, causes the fault, waits until all clients are there and have all messages, and settles the books.
func (s *Stand) Try(ctx context.Context, t Trial) (*Outcome, error) {
	before, err := s.Order(ctx, load.Order{Reset: true, Where: true, Apart: t.Apart})
	if err != nil {
		return nil, err
	}
	stop := make(chan struct{})
	o := &Outcome{Before: before, Sent: Sent{Accepted: load.NewHistogram()}, Apart: Sent{Accepted: load.NewHistogram()}}
	balancing, cancel := context.WithCancel(ctx)
	defer cancel()
	go s.balance(balancing, before.Where)
	published := s.publish(ctx, t.Apart, stop, o)
	// Publications go on before and after, so that there is something to lose.
	err = Pause(ctx, s.options.Step/4)
	begin := s.Measure()
	if err == nil {
		err = t.Fault(ctx)
	}
	if err == nil {
		_, err = s.Await(ctx, returnTime, func(t *Total) bool { return t.Live == s.Plan.Conns })
		if errors.Is(err, errLate) {
			err = nil // it shows
		}
	}
	o.Spent = s.Measure().Since(begin)
	if err == nil {
		err = Pause(ctx, s.options.Step/4)
	}
	close(stop)
	if err := errors.Join(err, published()); err != nil {
		return nil, err
	}
	due := o.Sent.Deliveries + o.Apart.Deliveries
	_, err = s.Await(ctx, settleTime, func(t *Total) bool { return t.Recoverable.Received-before.Recoverable.Received >= due })
	if err != nil && !errors.Is(err, errLate) {
		return nil, err
	}
	o.Total, err = s.Order(ctx, load.Order{Latencies: true, Where: true, Issued: s.Publisher.Issued()})
	if err != nil {
		return nil, err
	}
	o.Ended, o.Returned = o.Total.Ended()-before.Ended(), o.Total.Returned-before.Returned
	o.Cut = o.Total.Cut() - before.Cut() - o.Ended
	o.Recovered, o.Unrecovered = o.Total.Recovered-before.Recovered, o.Total.Unrecovered-before.Unrecovered
	o.Book = o.Total.Recoverable.Since(before.Recoverable)
	if o.Total.Live != s.Plan.Conns {
		return o, fmt.Errorf("%d of %d clients are back after %v; what failed: %v", o.Total.Live, s.Plan.Conns, returnTime, o.Total.Refusals)
	}
	return o, nil
}

// balancePause is how often a load balancer learns how many connections each node has.
const balancePause = 200 * time.Millisecond

func (s *Stand) balance(ctx context.Context, seen []int) {
	for {
		t, err := s.Order(ctx, load.Order{Seen: seen, Where: true})
		if err != nil || Pause(ctx, balancePause) != nil {
			return // a process that has ended shows elsewhere
		}
		seen = t.Where
	}
}

// publish publishes until stop is closed. The returned function waits for the end.
func (s *Stand) publish(ctx context.Context, apart []plan.Channel, stop <-chan struct{}, o *Outcome) func() error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, b := range besides {
		channels := s.Some(b.class, b.channels)
		for _, named := range []bool{false, true} {
			some := slices.DeleteFunc(slices.Clone(channels), func(ch plan.Channel) bool { return slices.Contains(apart, ch) != named })
			if len(some) == 0 {
				continue
			}
			rate := b.rate * min(1, lightly/float64(s.Plan.Conns)) * float64(len(some)) / float64(len(channels))
			to := &o.Sent
			if named {
				to = &o.Apart
			}
			all.Go(func() {
				sent, err := s.Publisher.Publish(ctx, Publication{Channels: some, Rate: rate, For: time.Hour, Sure: true, Stop: stop})
				mu.Lock()
				defer mu.Unlock()
				to.add(sent)
				errs = append(errs, err)
			})
		}
	}
	return func() error {
		all.Wait()
		return errors.Join(errs...)
	}
}

// calmly returns the outcome without a fault, which it makes once.
func (s *Stand) calmly(ctx context.Context) (*Outcome, error) {
	if s.calm != nil {
		return s.calm, nil
	}
	var err error
	s.calm, err = s.Try(ctx, Trial{Fault: func(ctx context.Context) error { return Pause(ctx, s.options.Step) }})
	return s.calm, err
}

func (s *section) outcome(o *Outcome) {
	s.add("subscriptions that ended and were made anew", float64(o.Ended), "")
	s.add("publications", float64(o.Sent.Publications+o.Apart.Publications), "")
	s.add("delivered", float64(o.Book.Received), "")
	s.add("lost", float64(o.Book.Lost), "")
	s.add("twice", float64(o.Book.Twice), "")
	s.add("out of order", float64(o.Book.Late), "")
	s.add("missing, and told so", float64(o.Book.Told), "")
	s.add("recovered", float64(o.Recovered), "")
	s.add("told that something is missing", float64(o.Unrecovered), "")
	s.add("publications tried again", float64(o.Sent.Retries+o.Apart.Retries), "requests")
}

// returns adds how the clients that had to leave came back, and its cost beyond a calm time. The node without is not
// counted; -1 counts all.
func (s *section) returns(o, calm *Outcome, without int) {
	s.add("clients that had to leave", float64(o.Cut), "")
	s.add("came back", float64(o.Returned), "")
	s.latency("time until a client is back", o.Returns)
	refused := sum(o.Total.Refusals) - sum(o.Before.Refusals)
	s.add("attempts that failed", float64(refused), "")
	each := 1e6 * o.Spent.Seconds / max(1, float64(o.Returned))
	nodes := 0.0
	for i := range o.Spent.EachServer {
		if i != without {
			nodes += o.Spent.EachServer[i] - calm.Spent.EachServer[i]
		}
	}
	if without >= 0 {
		s.add("CPU of the node itself", o.Spent.EachServer[without]*o.Spent.Seconds, "s")
		s.add("CPU of a return: other nodes", max(0, nodes)*each, "us")
	} else {
		s.add("CPU of a return: nodes", max(0, nodes)*each, "us")
	}
	s.add("CPU of a return: Redis", max(0, o.Spent.Redis-calm.Spent.Redis)*each, "us")
	s.add("CPU of a return: client", max(0, o.Spent.Load-calm.Spent.Load)*each, "us")
	s.add("CPU of a return: rest of the machine", max(0, o.Spent.Kernel-calm.Spent.Kernel)*each, "us")
	s.add("busiest node", o.Spent.MostServer, "processors")
	s.latency("deliveries", o.Deliveries)
}

func (s *section) spread(o *Outcome, without int) {
	least, most := 0, 0
	for i, n := range o.Where {
		if i == without {
			continue
		}
		came := n - o.Before.Where[i]
		if most == 0 && least == 0 {
			least, most = came, came
		}
		least, most = min(least, came), max(most, came)
	}
	s.add("came to a node: least", float64(least), "")
	s.add("came to a node: most", float64(most), "")
	s.add("clients of the largest node", float64(slices.Max(o.Where)), "")
}
