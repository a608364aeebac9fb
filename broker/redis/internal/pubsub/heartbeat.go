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

// patience is how many times CanaryTimeout a published canary may stay away while messages
// arrive: there may be so many before it.
const patience = 5

// heartbeat publishes canaries and judges by what comes back. Its times are nanoseconds since
// it was made, by the monotonic clock.
//
// It answers two questions. Does the connection live? Anything that arrives at the reader
// proves that; if nothing arrives, the connection is given up. Does it deliver? Only a canary
// proves that which has gone all the way to the handler.
type heartbeat struct {
	cfg   *Config
	start time.Time
	token string       // distinguishes the canaries of this Conn
	sign  atomic.Int64 // when the newest message arrived

	failures, silences atomic.Uint64 // canaries not published, and links given up

	mu        sync.Mutex
	link      *link // nil while there is no connection
	ready     bool  // everything is subscribed
	since     int64 // of the state
	reason    error // of the last failure
	delay     time.Duration
	proven    int64  // when the newest canary of this link was handled; 0: none yet
	number    uint64 // of the newest canary
	floor     uint64 // canaries up to this one are of earlier links
	seen      uint64 // the newest canary that arrived
	owed      bool   // a published canary has not arrived
	unsent    error  // why the newest canary was not published
	looked    int64  // when judge looked last
	silence   silence
	inFlight  bool // a publish is under way
	publisher sync.WaitGroup
}

// silence is for how long nothing of a kind has arrived. Only time in which the process ran
// counts: while the process or the machine stood still, nobody could read.
type silence struct {
	all      time.Duration // nothing at all
	messages time.Duration
	canary   time.Duration // while a canary is owed
}

// extend adds the time since the last look at since. The process is known to have run for part
// of that time.
func (s *silence) extend(p *heartbeat, l *link, now, since int64, part time.Duration) {
	quiet := func(before time.Duration, arrived int64) time.Duration {
		if arrived >= since {
			return min(part, time.Duration(max(0, now-arrived)))
		}
		return before + part
	}
	s.all = quiet(s.all, l.any.Load())
	s.messages = quiet(s.messages, p.sign.Load())
	if s.canary += part; !p.owed {
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
func (p *heartbeat) clock() int64 { return int64(time.Since(p.start)) + 1 }

// open begins to judge a link.
func (p *heartbeat) open(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link, p.ready, p.since, p.proven, p.floor, p.owed, p.unsent = l, false, p.clock(), 0, p.number, false, nil
	p.looked, p.silence = p.since, silence{}
}

// subscribed tells that everything is subscribed.
func (p *heartbeat) subscribed(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link == l {
		p.ready, p.since = true, p.clock()
	}
}

func (p *heartbeat) close(l *link, reason error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link == l {
		p.link, p.ready, p.since, p.reason = nil, false, p.clock(), reason
	}
}

// refused notes why there is no connection.
func (p *heartbeat) refused(reason error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reason = reason
}

// beat publishes a canary, unless the publish before is still under way.
func (p *heartbeat) beat(ctx context.Context, l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inFlight || p.link != l {
		return
	}
	p.inFlight = true
	p.number++
	number, at := p.number, p.clock()
	p.publisher.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, p.cfg.CanaryTimeout)
		defer cancel()
		data := fmt.Appendf(nil, "%s %d %d", p.token, number, at)
		p.published(number, p.cfg.Publish(ctx, p.cfg.Service, data))
	})
}

func (p *heartbeat) published(number uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight = false
	if number <= p.floor {
		return // it was for an earlier link
	}
	p.unsent = err
	if err != nil {
		p.failures.Add(1)
	}
	if err == nil && p.seen < number {
		p.owed = true
	}
}

// parse reads a canary. ok is false for the messages of others.
func (p *heartbeat) parse(data []byte) (number uint64, at int64, ok bool) {
	if len(data) > 64 {
		return 0, 0, false
	}
	token, rest, _ := strings.Cut(string(data), " ")
	first, second, found := strings.Cut(rest, " ")
	if token != p.token || !found {
		return 0, 0, false
	}
	number, err := strconv.ParseUint(first, 10, 64)
	if err != nil {
		return 0, 0, false
	}
	at, err = strconv.ParseInt(second, 10, 64)
	return number, at, err == nil
}

// arrived tells that the reader received a canary.
func (p *heartbeat) arrived(l *link, number uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link == l && number > p.floor {
		p.seen = max(p.seen, number)
		p.owed = false
	}
}

// delivered tells that a canary has arrived at the handler.
func (p *heartbeat) delivered(l *link, number uint64, at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link == l && number > p.floor {
		p.proven = p.clock()
		p.delay = time.Duration(p.proven - at)
	}
}

// judge returns an error if the link must be given up. silent reports whether nothing has
// arrived for an interval.
func (p *heartbeat) judge(l *link) (silent bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link != l {
		return false, nil
	}
	now, since := p.clock(), p.looked
	p.looked = now
	p.silence.extend(p, l, now, since, min(time.Duration(now-since), p.cfg.period()))
	s, timeout := p.silence, p.cfg.CanaryTimeout
	if s.all >= timeout {
		p.silences.Add(1)
		return true, fmt.Errorf("nothing received for %s%s", shown(s.all), p.unsentNote())
	}
	if s.canary >= timeout && s.messages >= timeout || s.canary >= patience*timeout {
		p.silences.Add(1)
		return false, fmt.Errorf("no canary for %s", shown(s.canary))
	}
	return s.all >= p.cfg.CanaryInterval, nil
}

func (p *heartbeat) isReady() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready
}

// proof reports whether this link has brought back a canary.
func (p *heartbeat) proof() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proven != 0
}

func (p *heartbeat) unsentNote() string {
	if p.unsent == nil {
		return ""
	}
	return fmt.Sprintf(", and no canary published: %v", p.unsent)
}

// health is what Conn.Health returns.
func (p *heartbeat) health() (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock()
	age := shown(time.Duration(now - p.since))
	switch away := time.Duration(now - p.proven); {
	case p.link == nil:
		return p.delay, fmt.Errorf("%w for %s: %w", ErrDisconnected, age, p.reason)
	case !p.ready:
		return p.delay, fmt.Errorf("subscribing for %s, after: %w", age, p.reason)
	case p.unsent != nil:
		return p.delay, fmt.Errorf("no canary published: %w", p.unsent)
	case p.proven == 0:
		return p.delay, fmt.Errorf("unproven: no canary yet, for %s", age)
	case away >= p.cfg.CanaryTimeout:
		return p.delay, fmt.Errorf("no canary for %s", shown(away))
	}
	return p.delay, nil
}

func shown(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
