package logging

import (
	"sync/atomic"
	"time"
)

// Outage is the time in which something fails. It tells its user when to write a line: when the outage begins, and when
// it is over, however many attempts fail in between. The zero value is ready. Any goroutine may use it.
type Outage struct{ now atomic.Pointer[outage] }

type outage struct {
	since    time.Time
	failures int
	err      error // the newest one
}

// Fail notes a failure, and returns how many there were in a row.
func (o *Outage) Fail(err error) (failures int) {
	for {
		before := o.now.Load()
		next := &outage{failures: 1, err: err}
		if before == nil {
			next.since = time.Now()
		} else {
			next.since, next.failures = before.since, before.failures+1
		}
		if o.now.CompareAndSwap(before, next) {
			return next.failures
		}
	}
}

// End notes a success, and returns how many failures the outage had that is over now, and when it began; 0 if there was
// none.
func (o *Outage) End() (failures int, since time.Time) {
	if o.now.Load() == nil {
		return 0, since
	}
	if before := o.now.Swap(nil); before != nil {
		return before.failures, before.since
	}
	return 0, since
}

// Err returns the error of the newest failure, nil if there is no outage.
func (o *Outage) Err() error {
	if now := o.now.Load(); now != nil {
		return now.err
	}
	return nil
}
