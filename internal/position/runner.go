package position

import (
	"slices"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/beat"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/route"
)

type runner struct {
	*Checker
	timer *time.Timer

	// One bucket is due every step. A visit checks all that are due.
	step             time.Duration
	bucket           int
	nextAt           time.Time // when the next bucket is due
	planned, visitAt time.Time // the last visit, and the next one
	paced            bool      // the next visit is on the beat

	// todo are the channels to check after losses. failed are those whose read failed; they wait until retryAt.
	todo, failed []target
	retryAt      time.Time

	// read are checks that wait until every publication before them has arrived.
	read []batch

	unread   int
	loggedAt time.Time
}

type batch struct {
	at     time.Time
	visit  bool
	checks []hub.Message
}

func (r *runner) run() {
	r.step = max(r.cfg.Delay/route.Buckets, minStep)
	r.planned = time.Now()
	r.nextAt = r.planned.Add(r.step)
	r.plan(r.planned, 0)
	r.timer = time.NewTimer(time.Hour)
	defer r.timer.Stop()
	for r.ctx.Err() == nil {
		r.take()
		r.retry()
		r.post()
		if r.cfg.Delay >= 0 {
			r.visit()
		}
		if n := min(len(r.todo), batchSize); n > 0 {
			failed := r.check(r.todo[:n], false)
			r.todo = r.todo[n:]
			r.fail(failed)
			continue // work that became due meanwhile comes first
		}
		if r.idle() && r.stop() {
			return
		}
		r.sleep()
	}
}

// idle tells whether only periodic checks are left. Once no channel is watched, waiting checks are useless.
func (r *runner) idle() bool {
	return !r.cfg.Routes.HasChecked() || len(r.read)+len(r.failed) == 0
}

func (r *runner) take() {
	if len(r.todo) > 0 {
		return
	}
	r.mu.Lock()
	losses := r.losses
	r.losses = nil
	r.mu.Unlock()
	if len(losses) == 0 {
		return
	}
	for i := range route.Buckets {
		from := len(r.todo)
		r.todo = r.targets(r.todo, i, true)
		kept := slices.DeleteFunc(r.todo[from:], func(t target) bool {
			return !slices.ContainsFunc(losses, func(match func(string) bool) bool { return match(t.channel) })
		})
		r.todo = r.todo[:from+len(kept)]
	}
	if len(r.todo) > 0 {
		r.cfg.Log.Info("publications may have got lost; checking positions", "channels", len(r.todo))
	}
}

func (r *runner) retry() {
	if len(r.failed) > 0 && !time.Now().Before(r.retryAt) {
		r.todo, r.failed = append(r.todo, r.failed...), nil
	}
}

func (r *runner) fail(failed []target) {
	for _, t := range failed {
		if t.again {
			continue
		}
		if t.again = true; len(r.failed) == 0 {
			r.retryAt = time.Now().Add(retryDelay)
		}
		r.failed = append(r.failed, t)
	}
}

// plan sets the time of the next visit, after one with so many channels due.
func (r *runner) plan(now time.Time, found int) {
	took := now.Sub(r.planned)
	r.planned = now
	r.paced = r.cfg.Delay >= shortDelay && time.Duration(found)*pace <= batchSize*took
	if r.visitAt = r.nextAt; r.paced {
		r.visitAt = now.Add(beat.Until(pace))
	}
}

// visit checks the buckets that are due, each once at most.
func (r *runner) visit() {
	now := time.Now()
	if now.Before(r.visitAt) {
		return
	}
	if late := now.Add(-r.step * (route.Buckets - 1)); r.nextAt.Before(late) {
		r.nextAt = late
	}
	var due []target
	for ; !r.nextAt.After(now); r.nextAt = r.nextAt.Add(r.step) {
		due = r.targets(due, r.bucket, false)
		r.bucket = (r.bucket + 1) % route.Buckets
	}
	for part := range slices.Chunk(due, batchSize) {
		if r.ctx.Err() != nil {
			return
		}
		r.check(part, true)
	}
	r.plan(now, len(due))
}

// check reads tops and keeps the checks for post; the checks of a visit may wait for the next one. It returns the
// channels whose read failed.
func (r *runner) check(targets []target, visit bool) (failed []target) {
	round := r.cfg.Rounds.Begin()
	targets = slices.DeleteFunc(targets, func(t target) bool {
		if t.fragile {
			r.cfg.Post(&hub.Message{Channel: t.channel, Kind: hub.KindCheck, Round: round, Pub: &channel.Publication{}})
		}
		return t.fragile
	})
	tops, wait := r.tops(targets)
	b := batch{at: time.Now().Add(wait), visit: visit, checks: make([]hub.Message, 0, len(targets))}
	positions := make([]channel.Publication, len(targets))
	for i := range targets {
		t := &tops[i]
		if t.Err != nil {
			failed = append(failed, targets[i])
			r.unread++
			r.log(t.Err)
			continue
		}
		positions[i].Offset = t.Top.Offset
		b.checks = append(b.checks, hub.Message{
			Channel: targets[i].channel, Kind: hub.KindCheck, Round: round, Epoch: t.Top.Epoch, Pub: &positions[i],
		})
	}
	r.read = append(r.read, b)
	if wait == 0 {
		r.post()
	}
	return failed
}

const logEvery = 10 * time.Second

func (r *runner) log(err error) {
	if now := time.Now(); r.ctx.Err() == nil && now.Sub(r.loggedAt) >= logEvery {
		r.cfg.Log.Warn("positions could not be checked", "channels", r.unread, "error", err)
		r.unread, r.loggedAt = 0, now
	}
}

func (r *runner) post() {
	if len(r.read) == 0 {
		return
	}
	now := time.Now()
	r.read = slices.DeleteFunc(r.read, func(b batch) bool {
		if b.at.After(now) {
			return false
		}
		for i := range b.checks {
			r.cfg.Post(&b.checks[i])
		}
		return true
	})
}

func (r *runner) sleep() {
	var next time.Time
	if r.cfg.Delay >= 0 {
		next = r.visitAt
	}
	for i := range r.read {
		if b := &r.read[i]; !b.visit || !r.paced {
			next = earlier(next, b.at)
		}
	}
	if len(r.failed) > 0 {
		next = earlier(next, r.retryAt)
	}
	r.timer.Reset(time.Until(next))
	select {
	case <-r.timer.C:
	case <-r.wake:
	case <-r.ctx.Done():
	}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
