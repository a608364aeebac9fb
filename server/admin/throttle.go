package admin

import (
	"net/netip"
	"sync"
	"time"
)

// Logins that fail: so many at once, then one per interval; from one address, and from all. One
// address alone cannot use up what all have.
const (
	ofAddress, addressInterval = 5, 10 * time.Second
	ofAll, allInterval         = 50, time.Second
	// maxAddresses bounds the addresses that are known apart.
	maxAddresses = 4096
)

// bucket has what is left of a budget.
type bucket struct {
	left float64
	at   time.Time
}

// fill adds what came back until now.
func (b *bucket) fill(now time.Time, size float64, interval time.Duration) {
	if b.at.IsZero() {
		b.left = size
	} else if since := now.Sub(b.at); since > 0 {
		b.left = min(b.left+float64(since)/float64(interval), size)
	}
	b.at = now
}

// wait returns how long it takes until there is one.
func (b *bucket) wait(interval time.Duration) time.Duration {
	return time.Duration((1 - b.left) * float64(interval))
}

// throttle bounds the logins that fail. Any goroutine may call its methods.
type throttle struct {
	mu        sync.Mutex
	all       bucket
	addresses map[netip.Addr]*bucket
	others    bucket    // shared by addresses beyond maxAddresses
	swept     time.Time // when addresses were forgotten
}

func newThrottle() *throttle { return &throttle{addresses: make(map[netip.Addr]*bucket)} }

// begin counts a login as failed, unless succeeded is called. If there were too many, it returns how
// long to wait.
func (t *throttle) begin(from netip.Addr, now time.Time) (wait time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.bucket(from, now)
	b.fill(now, ofAddress, addressInterval)
	t.all.fill(now, ofAll, allInterval)
	if b.left < 1 || t.all.left < 1 {
		return max(b.wait(addressInterval), t.all.wait(allInterval)), false
	}
	b.left--
	t.all.left--
	return 0, true
}

// succeeded takes back what begin has counted.
func (t *throttle) succeeded(from netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all.left = min(t.all.left+1, ofAll)
	delete(t.addresses, from)
}

// bucket returns that of an address. It forgets addresses that have all they may have.
func (t *throttle) bucket(from netip.Addr, now time.Time) *bucket {
	if b := t.addresses[from]; b != nil {
		return b
	}
	if len(t.addresses) >= maxAddresses && now.Sub(t.swept) >= addressInterval {
		t.swept = now
		for a, b := range t.addresses {
			if b.fill(now, ofAddress, addressInterval); b.left >= ofAddress {
				delete(t.addresses, a)
			}
		}
	}
	if len(t.addresses) >= maxAddresses {
		return &t.others
	}
	b := new(bucket)
	t.addresses[from] = b
	return b
}

// addressOf returns the address of a client: of IPv6 the network, as one client has all addresses in it.
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
