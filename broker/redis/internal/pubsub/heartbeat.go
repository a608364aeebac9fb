package pubsub

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// patience is how many times CanaryTimeout a canary may stay away while messages arrive: many may be before it.
const patience = 5

// heartbeat publishes canaries, and checks the connection. Its times are nanoseconds since it was made, by the monotonic
// clock.
//
// Does the connection live? If nothing arrives at the reader, it is given up. Does it deliver? A canary that has gone
// all the way to the handler proves that.
type heartbeat struct {
	cfg         *Config
	start       time.Time
	token       string       // distinguishes the canaries of this Conn
	lastMessage atomic.Int64 // when the newest message arrived

	failures, timeouts atomic.Uint64 // canaries not published, and connections given up

	mu          sync.Mutex
	current     *connection // nil while there is no connection
	ready       bool        // everything is subscribed
	since       int64       // of the state
	reason      error       // of the last failure
	delay       time.Duration
	proven      int64  // when the newest canary of this connection was handled; 0: none yet
	number      uint64 // of the newest canary
	earlier     uint64 // canaries up to this one are of earlier connections
	received    uint64 // the newest canary that arrived
	outstanding bool   // a published canary has not arrived
	unsent      error  // why the newest canary was not published
	checked     int64  // when check ran last
	idle        idleTimes
	inFlight    bool // a publish is under way
	publisher   sync.WaitGroup
}

// idleTimes counts only the time in which the process ran: while it stood still, it could not read.
type idleTimes struct {
	all      time.Duration // nothing at all
	messages time.Duration
	canary   time.Duration // while a canary is outstanding
}

// extend adds the time since the last check. The process is known to have run for part of it.
func (s *idleTimes) extend(h *heartbeat, cn *connection, now, since int64, part time.Duration) {
	quiet := func(before time.Duration, arrived int64) time.Duration {
		if arrived >= since {
			return min(part, time.Duration(max(0, now-arrived)))
		}
		return before + part
	}
	s.all = quiet(s.all, cn.lastReceived.Load())
	s.messages = quiet(s.messages, h.lastMessage.Load())
	s.canary += part
	if !h.outstanding {
		s.canary = 0
	}
}

func newHeartbeat(cfg *Config) *heartbeat {
	return &heartbeat{
		cfg: cfg, start: time.Now(), reason: errors.New("not connected before"),
		token: strconv.FormatUint(uint64(cfg.Random()*math.MaxUint32)<<32|uint64(cfg.Random()*math.MaxUint32), 36),
	}
}

// clock is never 0.
func (h *heartbeat) clock() int64 { return int64(time.Since(h.start)) + 1 }

func (h *heartbeat) open(cn *connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current, h.ready, h.since, h.proven, h.earlier, h.outstanding, h.unsent = cn, false, h.clock(), 0, h.number, false, nil
	h.checked, h.idle = h.since, idleTimes{}
}

func (h *heartbeat) subscribed(cn *connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current == cn {
		h.ready, h.since = true, h.clock()
	}
}

func (h *heartbeat) close(cn *connection, reason error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current == cn {
		h.current, h.ready, h.since, h.reason = nil, false, h.clock(), reason
	}
}

func (h *heartbeat) connectFailed(reason error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reason = reason
}

// publishCanary does nothing while the publish before is under way.
func (h *heartbeat) publishCanary(ctx context.Context, cn *connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inFlight || h.current != cn {
		return
	}
	h.inFlight = true
	h.number++
	number, at := h.number, h.clock()
	h.publisher.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, h.cfg.CanaryTimeout)
		defer cancel()
		data := fmt.Appendf(nil, "%s %d %d", h.token, number, at)
		h.published(number, h.cfg.Publish(ctx, h.cfg.CanaryChannel, data))
	})
}

func (h *heartbeat) published(number uint64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inFlight = false
	if number <= h.earlier {
		return // it was for an earlier connection
	}
	h.unsent = err
	if err != nil {
		h.failures.Add(1)
	}
	if err == nil && h.received < number {
		h.outstanding = true
	}
}

// parse reads a canary. ok is false for messages of others.
func (h *heartbeat) parse(data []byte) (number uint64, at int64, ok bool) {
	if len(data) > 64 {
		return 0, 0, false
	}
	token, rest, _ := strings.Cut(string(data), " ")
	first, second, found := strings.Cut(rest, " ")
	if token != h.token || !found {
		return 0, 0, false
	}
	number, err := strconv.ParseUint(first, 10, 64)
	if err != nil {
		return 0, 0, false
	}
	at, err = strconv.ParseInt(second, 10, 64)
	return number, at, err == nil
}

// arrived: the reader got a canary. delivered: the handler got it.
func (h *heartbeat) arrived(cn *connection, number uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current == cn && number > h.earlier {
		h.received = max(h.received, number)
		h.outstanding = false
	}
}

func (h *heartbeat) delivered(cn *connection, number uint64, at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current == cn && number > h.earlier {
		h.proven = h.clock()
		h.delay = time.Duration(h.proven - at)
	}
}

// check returns an error if the connection must be given up. idle: nothing has arrived for an interval.
func (h *heartbeat) check(cn *connection) (idle bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current != cn {
		return false, nil
	}
	now, since := h.clock(), h.checked
	h.checked = now
	h.idle.extend(h, cn, now, since, min(time.Duration(now-since), h.cfg.period()))
	s, timeout := h.idle, h.cfg.CanaryTimeout
	if s.all >= timeout {
		h.timeouts.Add(1)
		return true, fmt.Errorf("nothing received for %s%s", shown(s.all), h.unsentNote())
	}
	if s.canary >= timeout && s.messages >= timeout || s.canary >= patience*timeout {
		h.timeouts.Add(1)
		return false, fmt.Errorf("no canary for %s", shown(s.canary))
	}
	return s.all >= h.cfg.CanaryInterval, nil
}

func (h *heartbeat) isReady() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ready
}

func (h *heartbeat) proof() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.proven != 0
}

func (h *heartbeat) unsentNote() string {
	if h.unsent == nil {
		return ""
	}
	return fmt.Sprintf(", and no canary published: %v", h.unsent)
}

func (h *heartbeat) health() (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock()
	age := shown(time.Duration(now - h.since))
	switch away := time.Duration(now - h.proven); {
	case h.current == nil:
		return h.delay, fmt.Errorf("%w for %s: %w", ErrDisconnected, age, h.reason)
	case !h.ready:
		return h.delay, fmt.Errorf("subscribing for %s, after: %w", age, h.reason)
	case h.unsent != nil:
		return h.delay, fmt.Errorf("no canary published: %w", h.unsent)
	case h.proven == 0:
		return h.delay, fmt.Errorf("unproven: no canary yet, for %s", age)
	case away >= h.cfg.CanaryTimeout:
		return h.delay, fmt.Errorf("no canary for %s", shown(away))
	}
	return h.delay, nil
}

func shown(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
