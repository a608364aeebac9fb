// Package slab makes strings for the arguments of commands, with few allocations.
package slab

import (
	"math/rand/v2"
	"strconv"
	"time"
	"unsafe"

	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/channel"
)

// Slab makes strings that share allocations. Each string keeps its neighbours in memory, so
// none should live much longer than the call that it is made for. The zero value begins
// small. A Slab belongs to one goroutine.
type Slab struct {
	free []byte
	size int // of the next chunk
}

// Max is the size in bytes that chunks grow to.
const Max = 64 << 10

// New makes a slab whose first chunk has size bytes.
func New(size int) Slab { return Slab{size: size} }

// room returns a slice of length 0 with room for most bytes, for keep.
func (s *Slab) room(most int) []byte {
	if cap(s.free)-len(s.free) < most {
		s.free = make([]byte, 0, max(s.size, most))
		s.size = min(max(2*s.size, 1<<10), Max)
	}
	return s.free[len(s.free):]
}

// keep makes a string of what was appended to a slice of room.
func (s *Slab) keep(dst []byte) string {
	if len(dst) == 0 {
		return ""
	}
	if len(dst) <= cap(s.free)-len(s.free) {
		s.free = s.free[:len(s.free)+len(dst)]
	}
	return unsafe.String(&dst[0], len(dst)) // nobody writes there any more
}

// Name makes the name of kind for a channel whose hash is given.
func (s *Slab) Name(n *format.Names, kind format.KeyKind, ch string, hash uint64) string {
	return s.keep(n.Append(s.room(n.Size(ch)), kind, ch, hash))
}

// Result makes the name of an idempotency key's result.
func (s *Slab) Result(n *format.Names, ch string, hash uint64, key string) string {
	return s.keep(n.AppendResult(s.room(n.Size(ch)+1+len(key)), ch, hash, key))
}

// maxTTL is longer than any time to live has to be, and as much as Redis can add to the time.
const maxTTL = 100 * 365 * 24 * time.Hour

// Milliseconds of d, at least 1, in decimal.
func (s *Slab) Milliseconds(d time.Duration) string {
	d = min(d, maxTTL)
	return s.Number(uint64(max((d+time.Millisecond-1)/time.Millisecond, 1)))
}

// Number makes n in decimal.
func (s *Slab) Number(n uint64) string {
	if n < 100 {
		return strconv.Itoa(int(n)) // constants of strconv
	}
	return s.keep(strconv.AppendUint(s.room(20), n, 10))
}

// Epoch makes 8 random letters.
func (s *Slab) Epoch() string { return s.keep(appendEpoch(s.room(8))) }

// Life makes an epoch for a new life of a stream and appends what is known of the stream:
// offset:epoch.
func (s *Slab) Life(epoch string, offset uint64) string {
	dst := appendEpoch(s.room(8 + 21 + len(epoch)))
	if epoch != "" {
		dst = append(strconv.AppendUint(dst, offset, 10), ':')
		dst = append(dst, epoch...)
	}
	return s.keep(dst)
}

func appendEpoch(dst []byte) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	random := rand.Uint64()
	for range 8 {
		dst = append(dst, letters[random%uint64(len(letters))])
		random /= uint64(len(letters))
	}
	return dst
}

// Publication makes the Protobuf of pub.
func (s *Slab) Publication(pub *channel.Publication, delta bool) string {
	most := len(pub.Data) + len(pub.Channel) + len(pub.Key) + 80
	if pub.Info != nil {
		most += len(pub.Info.User) + len(pub.Info.Client) + len(pub.Info.ConnInfo) + len(pub.Info.ChanInfo) + 60
	}
	for key, value := range pub.Tags {
		most += len(key) + len(value) + 32
	}
	return s.keep(format.AppendPublication(s.room(most), pub, delta))
}

// ClientInfo makes the message of a join or leave, or a client info alone if mark is empty.
func (s *Slab) ClientInfo(mark string, info *channel.ClientInfo) string {
	most := len(mark) + len(info.User) + len(info.Client) + len(info.ConnInfo) + len(info.ChanInfo) + 60
	return s.keep(info.AppendProto(append(s.room(most), mark...)))
}
