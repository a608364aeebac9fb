package engines

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
	// maxEntries bounds the entries. Clients that do not fit stay present until their time to live is over.
	maxEntries = 1 << 16
	maxWorkers = 16
	// A worker pauses that long after a call that failed.
	minPause, maxPause = 50 * time.Millisecond, 400 * time.Millisecond
	callTimeout        = 5 * time.Second
	// confirmAfter is when a call that succeeded is done again: a call that failed before, and went by another
	// connection, must be over by then.
	confirmAfter = 2 * time.Second
	closeTimeout = 2 * time.Second
)

// presenceManager stands in front of a presence manager over a network, of which a failed call may have been done, or
// will be. So it repeats a removal until it succeeds, and repeats a call that succeeded after a failure, when the failed
// call must be over. The newest call for a client in a channel counts. Any goroutine may call the methods. Calls for one
// client in one channel must come one after the other.
type presenceManager struct {
	broker.PresenceManager
	log   *slog.Logger
	limit int // of entries

	number atomic.Int64 // of entries
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	entries map[presenceKey]*presenceEntry
	lists   [numStates]list.List // of entries that are not locked
	locked  int                  // entries
	workers int
	waiting bool          // a worker waits for the first entry to confirm
	wake    chan struct{} // wakes it
	closing bool
	empty   chan struct{} // if closing: has an element when no entry is left
	outage  outage
}

type presenceKey struct{ channel, client string }

type presenceState uint8

const (
	// doubtful: an Add failed, and no call has followed yet.
	doubtful presenceState = iota
	// failed: the newest call must be repeated.
	failed
	// confirming: the newest call succeeded, and is done again when it is due.
	confirming
	numStates
)

type presenceEntry struct {
	presenceKey
	user string
	// info is the presence that the newest call added; nil if it removed the client.
	info     *channel.ClientInfo
	state    presenceState
	due      time.Time // if confirming
	version  int       // counts the calls
	element  *list.Element
	unlocked chan struct{} // not nil while a worker or caller has locked the entry; closed when it is unlocked
}

// outage counts removals since they began to fail.
type outage struct {
	since         time.Time // zero: removals do not fail
	removed, lost int
}

func newPresenceManager(p broker.PresenceManager, log *slog.Logger) *presenceManager {
	m := &presenceManager{
		PresenceManager: p, log: log, limit: maxEntries, entries: make(map[presenceKey]*presenceEntry),
		wake: make(chan struct{}, 1), empty: make(chan struct{}, 1),
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

func (m *presenceManager) Add(ctx context.Context, ch string, info *channel.ClientInfo) error {
	k := presenceKey{ch, info.Client}
	e, err := m.acquire(ctx, k)
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
	defer m.outageEnds()
	switch {
	case e == nil:
		m.insert(&presenceEntry{presenceKey: k, state: doubtful})
	case err != nil || e.version != version:
		m.release(e, e.state)
	default:
		e.info, e.version = info, e.version+1
		m.release(e, confirming)
	}
	return err
}

// Remove implements broker.PresenceManager. It returns nil if the client is removed, or will be as soon as possible.
func (m *presenceManager) Remove(ctx context.Context, ch, client, user string) error {
	k := presenceKey{ch, client}
	if m.leaveToWorkers(k, user) {
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
		e = &presenceEntry{presenceKey: k, user: user, state: failed}
		if !m.insert(e) {
			return err
		}
	case err == nil: // but the Add that failed may still be done
		m.move(e, confirming)
		e.user = user
		return nil
	default:
		m.move(e, failed)
		e.user = user
	}
	m.outageBegins(e, err)
	return nil
}

func (m *presenceManager) leaveToWorkers(k presenceKey, user string) bool {
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
	if e.unlocked != nil {
		e.state = failed // who has locked it looks at it in the end
		return true
	}
	m.move(e, failed)
	return true
}

// acquire locks an entry for the caller until release or remove. It returns nil if there is no entry.
func (m *presenceManager) acquire(ctx context.Context, k presenceKey) (*presenceEntry, error) {
	for m.number.Load() > 0 {
		m.mu.Lock()
		e := m.entries[k]
		if e == nil {
			m.mu.Unlock()
			break
		}
		free := e.unlocked
		if free == nil {
			m.lock(e)
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

func (m *presenceManager) outageBegins(e *presenceEntry, err error) {
	if !m.outage.since.IsZero() {
		return
	}
	m.outage = outage{since: time.Now()}
	m.log.Warn("presence cannot be removed, and is tried again until it can", "channel", e.channel, "client", e.client, "error", err)
}

func (m *presenceManager) outageEnds() {
	o := m.outage
	if o.since.IsZero() || m.lists[failed].Len()+m.locked > 0 {
		return
	}
	m.outage = outage{}
	m.log.Info("presence is removed again", "removed", o.removed, "failed_at", o.since, "after_ms", time.Since(o.since).Milliseconds())
	m.tellLost(o.lost)
}

func (m *presenceManager) tellLost(n int) {
	if n > 0 {
		m.log.Warn("presence of clients that have gone was not removed, and ends with its time to live", "count", n, "limit", m.limit)
	}
}

// Close waits for the failed removals, 2 s at most, and gives up the rest. No method may be called after it.
func (m *presenceManager) Close() {
	m.mu.Lock()
	m.closing = true
	for m.lists[doubtful].Len() > 0 {
		m.remove(m.lists[doubtful].Front().Value.(*presenceEntry))
	}
	signal(m.wake) // entries to confirm are due now
	left := len(m.entries)
	m.mu.Unlock()
	if left > 0 {
		select {
		case <-m.empty:
		case <-time.After(closeTimeout):
		}
	}
	m.cancel()
	m.work.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tellLost(m.outage.lost + m.lists[failed].Len())
}
