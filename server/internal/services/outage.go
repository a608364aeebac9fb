package services

import "sync/atomic"

// Outage counts failures in a row, so that the log tells once when something begins to fail, and once when it works again.
// The zero value is ready, and any goroutine may use it.
type Outage struct{ failures atomic.Int64 }

// Failed counts a failure, and returns how many there were in a row. The first one begins the outage.
func (o *Outage) Failed() int { return int(o.failures.Add(1)) }

// Lasts tells whether there was a failure and no success since.
func (o *Outage) Lasts() bool { return o.failures.Load() > 0 }

// Over ends the outage after a success. It returns how many failures there were; 0 if there was no outage.
func (o *Outage) Over() int {
	if !o.Lasts() { // the usual case writes nothing
		return 0
	}
	return int(o.failures.Swap(0))
}
