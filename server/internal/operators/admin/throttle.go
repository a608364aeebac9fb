package admin

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
)

// Logins that fail: so many at once, then one per interval, of one source and of all addresses. One address alone cannot
// use up the budget of all.
const (
	ofSource, sourceInterval = 5, 10 * time.Second
	ofAll, allInterval       = 50, time.Second
	maxSources               = 4096
)

// source is a device, which does not count among all, or else an address.
type source struct {
	device  device
	address netip.Addr
}

type bucket struct {
	left float64
	at   time.Time
}

func (b *bucket) fill(now time.Time, size float64, interval time.Duration) {
	if b.at.IsZero() {
		b.left = size
	} else if since := now.Sub(b.at); since > 0 {
		b.left = min(b.left+float64(since)/float64(interval), size)
	}
	b.at = now
}

func (b *bucket) wait(interval time.Duration) time.Duration {
	return time.Duration((1 - b.left) * float64(interval))
}

// throttle bounds the logins that fail. Any goroutine may call its methods.
type throttle struct {
	mu      sync.Mutex
	all     bucket
	sources map[source]*bucket
	others  bucket    // shared by sources beyond maxSources
	swept   time.Time // when sources were forgotten
}

func newThrottle() *throttle { return &throttle{sources: make(map[source]*bucket)} }

// begin counts a login as failed until succeeded is called. After too many, it returns how long to wait.
func (t *throttle) begin(from source, now time.Time) (wait time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.bucket(from, now)
	b.fill(now, ofSource, sourceInterval)
	t.all.fill(now, ofAll, allInterval)
	switch {
	case from.device == device{} && t.all.left < 1:
		return max(b.wait(sourceInterval), t.all.wait(allInterval)), false
	case b.left < 1:
		return b.wait(sourceInterval), false
	}
	b.left--
	if from.device == (device{}) {
		t.all.left--
	}
	return 0, true
}

func (t *throttle) succeeded(from source) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if from.device == (device{}) {
		t.all.left = min(t.all.left+1, ofAll)
	}
	delete(t.sources, from)
}

// bucket forgets sources that have all they may have.
func (t *throttle) bucket(from source, now time.Time) *bucket {
	if b := t.sources[from]; b != nil {
		return b
	}
	if len(t.sources) >= maxSources && now.Sub(t.swept) >= sourceInterval {
		t.swept = now
		for a, b := range t.sources {
			if b.fill(now, ofSource, sourceInterval); b.left >= ofSource {
				delete(t.sources, a)
			}
		}
	}
	if len(t.sources) >= maxSources && from.device == (device{}) {
		return &t.others
	}
	b := new(bucket)
	t.sources[from] = b
	return b
}

func sourceOf(s *config.Admin, r *http.Request, now time.Time) source {
	if d := deviceOf(s, r, now); d != (device{}) {
		return source{device: d}
	}
	return source{address: addressOf(r.RemoteAddr)}
}

// addressOf returns an address, of IPv6 the network, as one client has all addresses in it.
func addressOf(remote string) netip.Addr {
	a, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{} // all of them share one budget
	}
	addr := a.Addr().Unmap().WithZone("")
	if addr.Is6() {
		if network, err := addr.Prefix(64); err == nil {
			return network.Masked().Addr()
		}
	}
	return addr
}
