package engines

import (
	"context"
	"time"

	"github.com/gyrohq/gyro/internal/random"
)

// insert tells whether there was room. If not, it first drops a doubtful entry or, for a removal, one whose newest call
// succeeded.
func (m *presenceManager) insert(e *presenceEntry) bool {
	if len(m.entries) >= m.limit {
		least := m.lists[doubtful].Front()
		if least == nil && e.state == failed {
			least = m.lists[confirming].Front()
		}
		if least == nil {
			if e.state == failed {
				m.outage.lost++
			}
			return false
		}
		m.remove(least.Value.(*presenceEntry))
	}
	m.entries[e.presenceKey] = e
	m.number.Store(int64(len(m.entries)))
	m.move(e, e.state)
	return true
}

func (m *presenceManager) remove(e *presenceEntry) {
	m.unlist(e)
	delete(m.entries, e.presenceKey)
	m.number.Store(int64(len(m.entries)))
	m.unlock(e)
	if m.closing && len(m.entries) == 0 {
		signal(m.empty)
	}
}

func (m *presenceManager) move(e *presenceEntry, s presenceState) {
	m.unlist(e)
	e.state, e.element = s, m.lists[s].PushBack(e)
	switch s {
	case doubtful:
		return
	case confirming:
		e.due = time.Now().Add(confirmAfter)
	}
	m.startWorker()
}

func (m *presenceManager) unlist(e *presenceEntry) {
	if e.element != nil {
		m.lists[e.state].Remove(e.element)
		e.element = nil
	}
}

func (m *presenceManager) lock(e *presenceEntry) {
	m.unlist(e)
	e.unlocked = make(chan struct{})
	m.locked++
}

func (m *presenceManager) unlock(e *presenceEntry) {
	if e.unlocked != nil {
		close(e.unlocked)
		e.unlocked = nil
		m.locked--
	}
}

func (m *presenceManager) release(e *presenceEntry, s presenceState) {
	m.unlock(e)
	m.move(e, s)
}

func (m *presenceManager) startWorker() {
	if m.workers < maxWorkers && m.ctx.Err() == nil {
		m.workers++
		m.work.Go(m.run)
	}
}

func (m *presenceManager) run() {
	pause := minPause
	for m.ctx.Err() == nil {
		e, wait := m.next()
		switch {
		case e == nil && wait == 0:
			return
		case e == nil:
			m.await(wait)
		case m.repeat(e):
			pause = minPause
		default:
			m.pause(pause)
			pause = min(2*pause, maxPause)
		}
	}
}

// next takes an entry that needs work. If none does, one worker waits for the first entry to confirm, and the others
// end.
func (m *presenceManager) next() (e *presenceEntry, wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := m.lists[confirming].Front()
	if first != nil && !m.closing {
		wait = time.Until(first.Value.(*presenceEntry).due)
	}
	if first == nil || wait > 0 {
		if other := m.lists[failed].Front(); other != nil {
			first, wait = other, 0
		}
	}
	if first == nil || wait > 0 && m.waiting {
		m.workers--
		return nil, 0
	}
	if wait > 0 {
		m.waiting = true
		return nil, wait
	}
	e = first.Value.(*presenceEntry)
	m.lock(e)
	if m.lists[confirming].Len()+m.lists[failed].Len() > 0 {
		m.startWorker()
	}
	return e, 0
}

func (m *presenceManager) await(d time.Duration) {
	select {
	case <-time.After(d):
	case <-m.wake:
	case <-m.ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting = false
}

func (m *presenceManager) repeat(e *presenceEntry) bool {
	m.mu.Lock()
	user, info, version := e.user, e.info, e.version
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(m.ctx, callTimeout)
	defer cancel()
	var err error
	if info != nil {
		err = m.PresenceManager.Add(ctx, e.channel, info)
	} else {
		err = m.PresenceManager.Remove(ctx, e.channel, e.client, user)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.outageEnds()
	switch {
	case err != nil, e.version != version:
		m.release(e, failed)
	case e.state == confirming || m.closing:
		m.remove(e)
	default:
		if info == nil {
			m.outage.removed++
		}
		m.release(e, confirming)
	}
	return err == nil
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func (m *presenceManager) pause(d time.Duration) {
	select {
	case <-time.After(d/2 + random.N(d/2)): // nodes that failed together do not call together
	case <-m.ctx.Done():
	}
}
