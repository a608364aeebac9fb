// Package presence makes sure that clients who have gone do not stay present: a removal
// that fails is repeated until the presence manager has done it.
package presence

import (
	"container/list"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

const (
	// maxEntries bounds the clients in channels that are remembered. Those that find no
	// room stay present until their time to live is over.
	maxEntries = 1 << 16
	// maxWorkers repeat calls at a time.
	maxWorkers = 16
	// minPause and maxPause are between two attempts of a worker if the first one failed.
	minPause, maxPause = 50 * time.Millisecond, 400 * time.Millisecond
	// callTimeout bounds a repeated call.
	callTimeout = 5 * time.Second
	// settleTime is how long after a successful call one may still be done that failed
	// here before, as it was on its way by another connection.
	settleTime = 2 * time.Second
	// closeTimeout bounds how long Close waits for removals.
	closeTimeout = 2 * time.Second
)

// Manager stands in front of a presence manager over a network. A call that failed may
// not have been done, or be done later on: nobody knows. So a removal that failed is
// repeated until it succeeds, and what succeeded after a failure is done again when what
// had failed must be over. The newest call for a client in a channel counts.
//
// Calls for one client in one channel are made one after the other; others are made by
// any goroutine.
type Manager struct {
	broker.PresenceManager
	log   *slog.Logger
	limit int // of entries

	number atomic.Int64 // of entries
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	entries map[key]*entry
	lists   [numStates]list.List // of entries that are not held
	held    int                  // entries
	workers int
	waiting bool          // a worker waits for the first entry that is to settle
	wake    chan struct{} // wakes it
	closing bool
	empty   chan struct{} // has an element when nothing is left to be done, if closing
	outage  outage
}

type key struct{ channel, client string }

// state of an entry says what the workers have to do.
type state uint8

const (
	// doubtful: an Add failed, and nothing came behind it yet.
	doubtful state = iota
	// failed: the newest call has to be repeated.
	failed
	// settling: the newest call succeeded, and is done again at a time.
	settling
	numStates
)

// entry is a client in a channel about which a call failed.
type entry struct {
	key
	user string
	// info is what the newest call added. Nil: it removed the client.
	info  *channel.ClientInfo
	state state
	due   time.Time // if settling
	// version is how many calls there were.
	version int
	element *list.Element
	free    chan struct{} // not nil while somebody calls; closed then
}

// outage is what has happened since removals began to fail.
type outage struct {
	since         time.Time // zero: they do not
	removed, lost int
}

// New returns a manager in front of p.
func New(p broker.PresenceManager, log *slog.Logger) *Manager {
	m := &Manager{
		PresenceManager: p, log: log, limit: maxEntries, entries: make(map[key]*entry),
		wake: make(chan struct{}, 1), empty: make(chan struct{}, 1),
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

// Add implements broker.PresenceManager.
func (m *Manager) Add(ctx context.Context, ch string, info *channel.ClientInfo) error {
	k := key{ch, info.Client}
	e, err := m.hold(ctx, k)
	if err != nil {
		return err
	}
	version := 0
	if e != nil {
		version = e.version
	}
	err = m.PresenceManager.Add(ctx, ch, info)
	if e == nil && err == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.over()
	switch {
	case e == nil:
		m.insert(&entry{key: k, state: doubtful})
	case err != nil || e.version != version:
		m.release(e, e.state)
	default:
		e.info, e.version = info, e.version+1
		m.release(e, settling)
	}
	return err
}

// Remove implements broker.PresenceManager. It returns nil if the client is removed, or
// will be as soon as that is possible.
func (m *Manager) Remove(ctx context.Context, ch, client, user string) error {
	k := key{ch, client}
	if m.hand(k, user) {
		return nil
	}
	err := m.PresenceManager.Remove(ctx, ch, client, user)
	if err == nil && m.number.Load() == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[k]
	switch {
	case e == nil && err == nil:
		return nil
	case e == nil:
		e = &entry{key: k, user: user, state: failed}
		if !m.insert(e) {
			return err
		}
	case err == nil: // but the Add that failed may still be done
		m.unlink(e)
		e.user = user
		m.link(e, settling)
		return nil
	default:
		m.unlink(e)
		e.user = user
		m.link(e, failed)
	}
	m.begun(e, err)
	return nil
}

// hand leaves a removal to the workers if they are concerned with the client anyway.
func (m *Manager) hand(k key, user string) bool {
	if m.number.Load() == 0 {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[k]
	if e == nil || e.state == doubtful {
		return false
	}
	e.user, e.info, e.version = user, nil, e.version+1
	if e.free != nil {
		e.state = failed // whoever holds it sees that
		return true
	}
	m.unlink(e)
	m.link(e, failed)
	return true
}

// hold keeps the workers from a client in a channel, until release or remove. It returns
// nil if there is nothing to be done for it.
func (m *Manager) hold(ctx context.Context, k key) (*entry, error) {
	for m.number.Load() > 0 {
		m.mu.Lock()
		e := m.entries[k]
		if e == nil {
			m.mu.Unlock()
			break
		}
		free := e.free
		if free == nil {
			m.take(e)
		}
		m.mu.Unlock()
		if free == nil {
			return e, nil
		}
		select {
		case <-free:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, nil
}

// begun tells of the first removal that failed.
func (m *Manager) begun(e *entry, err error) {
	if !m.outage.since.IsZero() {
		return
	}
	m.outage = outage{since: time.Now()}
	m.log.Warn("presence cannot be removed, and is tried again until it can", "channel", e.channel, "client", e.client, "error", err)
}

// over tells that no removal is left.
func (m *Manager) over() {
	o := m.outage
	if o.since.IsZero() || m.lists[failed].Len()+m.held > 0 {
		return
	}
	m.outage = outage{}
	m.log.Info("presence is removed again", "removed", o.removed, "failed_at", o.since, "after", time.Since(o.since).Round(time.Millisecond).String())
	m.tellLost(o.lost)
}

// tellLost tells of clients that stay present.
func (m *Manager) tellLost(n int) {
	if n > 0 {
		m.log.Warn("presence of clients that have gone was not removed, and ends with its time to live", "count", n, "limit", m.limit)
	}
}

// Close waits for removals that have failed so far, for 2 s at most, and gives the others
// up. No call may come behind it.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closing = true
	for m.lists[doubtful].Len() > 0 {
		m.remove(m.lists[doubtful].Front().Value.(*entry))
	}
	signal(m.wake) // nothing has to settle any more
	left := len(m.entries)
	m.mu.Unlock()
	if left > 0 {
		timer := time.NewTimer(closeTimeout)
		defer timer.Stop()
		select {
		case <-m.empty:
		case <-timer.C:
		}
	}
	m.cancel()
	m.work.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tellLost(m.outage.lost + m.lists[failed].Len())
}
