package pubsub

import "time"

// backlog holds the messages that wait for the handler. The lock of the queue guards it, and drops.
type backlog struct {
	max, maxBytes int
	list          []message
	spare         []message // memory for list
	count, bytes  int       // of messages in list or taken, until they are released
	fullSince     time.Time // zero if the backlog was half empty since
	dropping      bool      // from too long a time of being full until it is half empty
}

func (b *backlog) empty() bool { return len(b.list) == 0 }

// add returns false if there is no room. An empty backlog has room for any message, and any backlog for notes, which are
// few.
func (b *backlog) add(m *message) bool {
	size := m.size()
	if m.note == nil && b.count > 0 && (b.count >= b.max || b.bytes+size > b.maxBytes) {
		return false
	}
	b.list = append(b.list, *m)
	b.count++
	b.bytes += size
	return true
}

// take uses the memory of handled later on.
func (b *backlog) take(handled []message) []message {
	if handled != nil {
		b.spare = handled[:0]
	}
	if len(b.list) == 0 {
		return nil
	}
	list := b.list
	b.list, b.spare = b.spare, nil
	return list
}

func (b *backlog) release(n, size int) (halfEmpty bool) {
	b.count -= n
	b.bytes -= size
	halfEmpty = b.count <= b.max/2 && b.bytes <= b.maxBytes/2
	if halfEmpty {
		b.dropping, b.fullSince = false, time.Time{}
	}
	return halfEmpty
}

const (
	// maxLost is how many channels with dropped messages are remembered.
	maxLost = 1 << 16
	// lostDelay is the longest time until drops are told while they go on.
	lostDelay = time.Second
)

// drops are the channels whose messages were dropped and that were not told yet.
type drops struct {
	count    uint64 // of all messages ever
	channels map[string]struct{}
	all      bool      // there were more than maxLost
	since    time.Time // of the first drop that was not told
}

func (d *drops) none() bool { return len(d.channels) == 0 && !d.all }

func (d *drops) add(channel []byte) {
	d.count++
	if d.none() {
		d.since = time.Now()
	}
	if _, known := d.channels[string(channel)]; known || d.all {
		return
	}
	if len(d.channels) >= maxLost {
		d.all, d.channels = true, nil
		return
	}
	if d.channels == nil {
		d.channels = make(map[string]struct{})
	}
	d.channels[string(channel)] = struct{}{}
}

// due reports whether to tell of drops: at their end, or after lostDelay.
func (d *drops) due(ended bool) bool { return !d.none() && (ended || time.Since(d.since) >= lostDelay) }

// take forgets the channels and returns them, nil for all.
func (d *drops) take() (channels []string) {
	for ch := range d.channels {
		channels = append(channels, ch)
	}
	d.all, d.channels = false, nil
	return channels
}
