package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/gyrohq/gyro/logging"
)

// guard keeps a slow or failed backend from affecting other clients: it limits running and waiting calls, and stops
// asking a backend that fails.
type guard struct {
	key, endpoint string
	event         Event
	log           *slog.Logger
	slots         chan struct{} // one element per call that is under way
	waiting       atomic.Int64
	queue         int64
	breaker       *gobreaker.TwoStepCircuitBreaker[struct{}] // nil if it is switched off

	outage logging.Outage
	last   atomic.Int64 // the time of the latest failure, in nanoseconds
}

// unusable is the error of an unusable answer, which shows that the backend is there. All other errors mean that it
// cannot be reached or is too slow.
type unusable string

// Error implements error.
func (u unusable) Error() string { return string(u) }

// calm is how long no call may fail before the log says that the backend answers again, so that a backend that fails now
// and then does not leave two lines for each failure.
const calm = 5 * time.Second

func newGuard(o Options) *guard {
	c := o.Config
	g := &guard{
		key: o.Key, endpoint: redacted(c.Endpoint), event: o.Event, log: o.Log,
		slots: make(chan struct{}, c.MaxConcurrency), queue: int64(c.MaxQueue),
	}
	if c.Breaker.Failures <= 0 {
		return g
	}
	g.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: 1,
		Timeout:     c.Breaker.OpenFor,
		ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= uint32(c.Breaker.Failures) },
		IsExcluded:  func(err error) bool { return errors.Is(err, context.Canceled) },
		// An unusable answer may be about a mistake of one client, and must not keep other clients from the backend.
		IsSuccessful: func(err error) bool {
			_, useless := errors.AsType[unusable](err)
			return err == nil || useless
		},
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case from == gobreaker.StateClosed: // once per outage: a probe that fails changes the state as well
				g.log.Warn("calls to the backend are refused for now, because it failed too often", "key", g.key+".breaker",
					"event", g.event.String(), "endpoint", g.endpoint, "for_ms", c.Breaker.OpenFor.Milliseconds())
			case to == gobreaker.StateClosed:
				g.log.Info("the backend is asked again", "key", g.key, "event", g.event.String(), "endpoint", g.endpoint)
			}
		},
	})
	return g
}

func redacted(endpoint string) string {
	if u, err := url.Parse(endpoint); err == nil && u.User != nil {
		return u.Redacted()
	}
	return endpoint
}

// enter waits until the call may be made. The caller passes the error of the call to done.
func (g *guard) enter(ctx context.Context, deadline time.Time) (done func(error), err error) {
	if err := g.slot(ctx, deadline); err != nil {
		g.report(err)
		return nil, err
	}
	passed := func(error) {}
	if g.breaker != nil {
		if passed, err = g.breaker.Allow(); err != nil {
			<-g.slots
			return nil, errOpen
		}
	}
	return func(err error) {
		<-g.slots
		passed(err)
		g.report(err)
	}, nil
}

func (g *guard) slot(ctx context.Context, deadline time.Time) error {
	select {
	case g.slots <- struct{}{}:
		return nil
	default:
	}
	defer g.waiting.Add(-1)
	if g.waiting.Add(1) > g.queue {
		return errQueue
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case g.slots <- struct{}{}:
		return nil
	case <-timer.C:
		return errTurn
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *guard) bound(err error) string {
	switch {
	case errors.Is(err, errQueue):
		return g.key + ".max_queue"
	case errors.Is(err, errTurn):
		return g.key + ".max_concurrency"
	case errors.Is(err, errTimeout):
		return g.key + ".timeout"
	}
	return g.key
}

func (g *guard) report(err error) {
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil:
		g.last.Store(time.Now().UnixNano())
		if g.outage.Fail(err) == 1 {
			g.log.Error("the backend gives no answer", "key", g.bound(err), "event", g.event.String(), "endpoint", g.endpoint, "error", err)
		}
	case g.outage.Err() != nil && time.Now().UnixNano()-g.last.Load() > int64(calm):
		if n, _ := g.outage.End(); n > 0 {
			g.log.Info("the backend answers again", "key", g.key, "event", g.event.String(), "endpoint", g.endpoint, "failures", n)
		}
	}
}
