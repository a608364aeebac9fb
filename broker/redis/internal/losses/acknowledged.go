// Package losses finds out that Redis has lost data.
//
// A node remembers the publications with history that it delivered (Stream) and that Redis acknowledged to it (Acked). A
// stream that does not hold them has lost them. Marks show a rollback of a whole server.
package losses

import (
	"hash/maphash"
	"strings"
	"sync"

	"github.com/gyrohq/gyro/broker"
)

// Publication is the latest known publication of a channel.
type Publication struct {
	Channel string
	Epoch   string
	Offset  uint64
	Sum     uint64 // of the payload; 0 if only the offset was seen
}

var seed = maphash.MakeSeed()

// Sum of a payload, good in this process.
func Sum(data []byte) uint64 { return maphash.Bytes(seed, data) }

// TextSum is Sum.
func TextSum(data string) uint64 { return maphash.String(seed, data) }

// Known is the knowledge of a stream: it had Offset in Epoch, and other epochs earlier.
type Known struct {
	Epoch   string
	Earlier Epochs
	Offset  uint64
}

// Epochs is a list of up to 8 epochs, the newest first, each between two spaces: a server that comes back with the same
// older data again and again has an epoch of long ago each time.
type Epochs string

const maxEpochs = 8

// Has looks for an epoch.
func (e Epochs) Has(epoch string) bool {
	return e != "" && strings.Contains(string(e), " "+epoch+" ")
}

// With puts an epoch in front.
func (e Epochs) With(epoch string) Epochs {
	list := []string{epoch}
	for other := range strings.FieldsSeq(string(e)) {
		if other != epoch && len(list) < maxEpochs {
			list = append(list, other)
		}
	}
	return Epochs(" " + strings.Join(list, " ") + " ")
}

// Without takes an epoch out.
func (e Epochs) Without(epoch string) Epochs {
	if !e.Has(epoch) {
		return e
	}
	return Epochs(strings.Replace(string(e), " "+epoch+" ", " ", 1))
}

// Acked remembers the last publication that a shard acknowledged, for up to 8,192 channels. A new channel replaces the
// one of its set that was not published to for longest. Any goroutine may use the zero value.
type Acked struct {
	mu   sync.Mutex
	sets []set // nil before the first
	uses uint64
}

const (
	setCount = 2048
	setSize  = 4
)

type set [setSize]acknowledgement

type acknowledgement struct {
	hash       uint64 // of the channel
	channel    []byte // reused
	known      Known
	sum        uint64
	generation uint64
	lastUse    uint64 // the number of the last use; 0: not used yet
}

func (a *Acked) find(ch string, hash uint64) (found, victim *acknowledgement) {
	if a.sets == nil {
		return nil, nil
	}
	s := &a.sets[hash%setCount]
	victim = &s[0]
	for i := range s {
		e := &s[i]
		if e.lastUse != 0 && e.hash == hash && string(e.channel) == ch {
			return e, e
		}
		if e.lastUse < victim.lastUse {
			victim = e
		}
	}
	return nil, victim
}

// Known returns the knowledge of a stream. hash belongs to ch.
func (a *Acked) Known(ch string, hash uint64) Known {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e, _ := a.find(ch, hash); e != nil {
		return e.known
	}
	return Known{}
}

// Note remembers a publication, if r says that it is in a stream. While the shard is not verified, it does not overwrite
// notes of an earlier generation.
func (a *Acked) Note(ch string, hash uint64, r *broker.PublishResult, sum, generation uint64, verified bool) {
	if r.Suppressed != "" || r.Position.Offset == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sets == nil {
		a.sets = make([]set, setCount)
	}
	a.uses++
	found, e := a.find(ch, hash)
	switch {
	case found == nil:
		*e = acknowledgement{hash: hash, channel: append(e.channel[:0], ch...), known: Known{Epoch: r.Position.Epoch}}
	case e.generation != generation && !verified:
		return
	case r.Position.Epoch == e.known.Epoch:
	case e.known.Earlier.Has(r.Position.Epoch):
		return // a later answer came first
	default:
		e.known = Known{Epoch: r.Position.Epoch, Earlier: e.known.Earlier.With(e.known.Epoch)}
	}
	e.lastUse = a.uses
	if r.Position.Offset > e.known.Offset {
		e.known.Offset, e.sum, e.generation = r.Position.Offset, sum, generation
	}
}

// Moved notes another epoch, unless Note was called meanwhile. stale is the epoch that the server had last, or "".
func (a *Acked) Moved(hash uint64, p *Publication, epoch string, offset uint64, stale string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, _ := a.find(p.Channel, hash)
	if e == nil || e.known.Epoch != p.Epoch || epoch == p.Epoch {
		return
	}
	earlier := e.known.Earlier.With(p.Epoch)
	if stale != "" {
		earlier = earlier.With(stale)
	}
	e.known, e.sum = Known{epoch, earlier, offset}, 0
}

// Acknowledged is a publication, and earlier epochs of its stream.
type Acknowledged struct {
	Publication
	Earlier Epochs
}

// All returns everything that is remembered.
func (a *Acked) All() []Acknowledged {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []Acknowledged
	for i := range a.sets {
		for k := range a.sets[i] {
			if e := &a.sets[i][k]; e.lastUse != 0 {
				list = append(list, Acknowledged{Publication{string(e.channel), e.known.Epoch, e.known.Offset, e.sum}, e.known.Earlier})
			}
		}
	}
	return list
}
