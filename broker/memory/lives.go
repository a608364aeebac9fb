package memory

import (
	"hash/maphash"

	"github.com/gyrohq/gyro/broker/enginekit"
)

// maxEnded is how many ended streams a stripe tells apart.
const maxEnded = 1024

// lives numbers the lives of a stripe's streams. A stream without publications is not stored: each read computes its
// epoch from the channel and the number of the life, and the first publication keeps that epoch. When a stream that had
// publications ends, its channel gets a higher number, so that a client does not take the next stream for the same one.
//
// The numbers of ended streams are forgotten, maxEnded at a time. Then all channels of the stripe begin a new life that
// are not subscribed and whose streams have no publications. A client that returns to one of them does not recover,
// although it missed nothing.
type lives struct {
	newest uint32            // the greatest number so far
	others uint32            // the number of all channels that are not in ended
	ended  map[uint64]uint32 // by the hash of the channel
}

func (l *lives) of(channel uint64) uint32 {
	if n, ok := l.ended[channel]; ok {
		return n
	}
	return l.others
}

func (l *lives) end(channel uint64) uint32 {
	if l.ended == nil {
		l.ended = make(map[uint64]uint32)
	}
	if len(l.ended) >= maxEnded {
		clear(l.ended)
		l.newest++
		l.others = l.newest
	}
	l.newest++
	l.ended[channel] = l.newest
	return l.newest
}

func (b *Broker) life(s *stripe, ch string, c state) uint32 {
	switch {
	case c.subscribed:
		return c.life
	case len(s.lives.ended) == 0: // without a hash
		return s.lives.others
	}
	return s.lives.of(maphash.String(b.seed, ch))
}

// epoch of a stream without publications. It differs from process to process.
func (b *Broker) epoch(s *stripe, ch string, c state) string {
	life := b.life(s, ch, c)
	var h maphash.Hash
	h.SetSeed(b.epochs)
	h.WriteString(ch)
	h.Write([]byte{byte(life), byte(life >> 8), byte(life >> 16), byte(life >> 24)})
	var epoch [enginekit.EpochSize]byte
	return string(enginekit.AppendEpoch(epoch[:0], h.Sum64()))
}
