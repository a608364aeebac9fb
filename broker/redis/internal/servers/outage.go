package servers

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// calmTime: in a Cluster, some calls may fail while others succeed.
const calmTime = time.Second

// outage logs its begin and its end once, however many calls fail.
type outage struct {
	log     *slog.Logger
	name    string
	primary func() string // address of the server that answers, if there is one and the name does not contain it
	on      atomic.Bool

	mu          sync.Mutex
	since, last time.Time // of failures
}

func (o *outage) failed(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = time.Now()
	if o.on.Load() {
		return
	}
	o.since = o.last
	o.on.Store(true)
	o.log.Warn("redis cannot be reached", "part", o.name, "error", err)
}

func (o *outage) succeeded() {
	if !o.on.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.on.Load() || time.Since(o.last) < calmTime {
		return
	}
	o.on.Store(false)
	log := o.log
	if primary := o.primary(); primary != "" {
		log = log.With("primary", primary) // perhaps another one than before
	}
	log.Info("redis can be reached again", "part", o.name, "failed_at", o.since, "after_ms", o.last.Sub(o.since).Milliseconds())
}
