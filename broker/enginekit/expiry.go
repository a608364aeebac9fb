package enginekit

import (
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/broker"
)

// ExpiryMeter measures the looks of one engine for expired entries. Any goroutine may use it.
type ExpiryMeter struct {
	removed, failures atomic.Uint64
	// since is when the last look began that left nothing behind, or the first look; nil: there was none.
	since atomic.Pointer[time.Time]
}

// Removed adds entries that were removed.
func (m *ExpiryMeter) Removed(n int) { m.removed.Add(uint64(n)) }

// Looked adds a look. Without an error, all that had expired when it began is removed.
func (m *ExpiryMeter) Looked(began time.Time, err error) {
	if err == nil {
		m.since.Store(&began)
		return
	}
	m.failures.Add(1)
	m.since.CompareAndSwap(nil, &began)
}

// Expiry is broker.Traits.Expiry.
func (m *ExpiryMeter) Expiry() broker.Expiry {
	e := broker.Expiry{Removed: m.removed.Load(), Failures: m.failures.Load()}
	if since := m.since.Load(); since != nil {
		e.Lag = time.Since(*since)
	}
	return e
}
