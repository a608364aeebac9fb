package rig

import "sync"

// pairs has the connections that a proxy relays, and imitates faults of networks on them. Any goroutine may call its
// methods. The zero value has none.
type pairs[P relayed] struct {
	mu   sync.Mutex
	down bool
	all  map[P]struct{}
}

type relayed interface {
	comparable
	cut()
	// mute discards all bytes of either side from now on, without closing the connections.
	mute()
}

// Cut breaks all connections. Bytes under way are lost.
func (p *pairs[P]) Cut() { p.each(P.cut) }

// Down breaks all connections, and new ones at once, until Up.
func (p *pairs[P]) Down() {
	p.set(true)
	p.Cut()
}

// Up takes connections again.
func (p *pairs[P]) Up() { p.set(false) }

// Mute discards all bytes on the present connections from now on, without closing them. New connections work.
func (p *pairs[P]) Mute() { p.each(P.mute) }

func (p *pairs[P]) set(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

func (p *pairs[P]) each(do func(P)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.all {
		do(c)
	}
}

// add reports whether the connection may live.
func (p *pairs[P]) add(c P) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return false
	}
	if p.all == nil {
		p.all = make(map[P]struct{})
	}
	p.all[c] = struct{}{}
	return true
}

func (p *pairs[P]) remove(c P) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, c)
}
