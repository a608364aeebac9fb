// Package mark finds out that the data of a server went back.
//
// A server can get older data without a restart: by DEBUG RELOAD, by REPLICAOF a stale copy
// and back, or when the former owner of a slot takes it back. Its connections stay, so only
// the data can tell. So each node writes marks again and again, with a number that it counts
// up. If a mark has a lower number than Redis acknowledged last, the data went back.
package mark

import (
	"context"
	"sync"
	"time"

	"github.com/gyrohq/gyro/broker/redis/internal/conn"
	"github.com/gyrohq/gyro/broker/redis/internal/reply"
	"github.com/gyrohq/gyro/broker/redis/internal/script"
	"github.com/gyrohq/gyro/broker/redis/internal/slab"
)

// ttl of a mark. A node that cannot write marks for longer finds none to compare.
const ttl = 24 * time.Hour

// Marks are keys that nobody else writes. Any goroutine may call the methods.
type Marks struct {
	keys []string // constant

	mu     sync.Mutex // held during a round trip: marks are written one after the other
	number uint64
	last   []last // by key
}

// last is what Redis acknowledged last for a key.
type last struct {
	number      uint64
	replication string
}

// New makes the marks of the keys.
func New(keys []string) *Marks { return &Marks{keys: keys, last: make([]last, len(keys))} }

// Finding is what marks tell.
type Finding struct {
	Written     bool // at least one mark was written
	WentBack    bool // a server has lost what it acknowledged
	Replication bool // a server has another replication ID than before
}

// Write writes the marks, and compares their old values with what was written last. A mark
// that cannot be written tells nothing.
func (m *Marks) Write(ctx context.Context, client *conn.Client) (f Finding) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.keys) == 0 {
		return f
	}
	m.number++
	var text slab.Slab
	calls := make([]script.Call, len(m.keys))
	for i, key := range m.keys {
		calls[i].Script = script.Mark
		calls[i].Key(key)
		calls[i].Arg(text.Number(m.number), text.Milliseconds(ttl))
	}
	answers, _ := script.RunAll(ctx, client, calls, nil)
	for i := range answers {
		number, replication, err := reply.Mark(&answers[i])
		if err != nil {
			continue
		}
		before := &m.last[i]
		f.Written = true
		f.WentBack = f.WentBack || number < before.number
		f.Replication = f.Replication || before.number > 0 && replication != before.replication
		*before = last{m.number, replication}
	}
	return f
}
