package redis

import (
	"math/rand/v2"
	"strconv"
	"time"
	"unsafe"

	"github.com/gyrohq/gyro/broker/redis/internal/payload"
	"github.com/gyrohq/gyro/channel"
)

// slab makes strings that share few allocations. They live as long as any of them
// does, so they must not outlive the call that they are made for by much.
type slab struct {
	free []byte
	size int // of the next chunk
}

const maxSlab = 64 << 10

// room returns a slice of length 0 for keep.
func (s *slab) room(most int) []byte {
	if cap(s.free)-len(s.free) < most {
		s.free = make([]byte, 0, max(s.size, most))
		s.size = min(max(2*s.size, 1<<10), maxSlab)
	}
	return s.free[len(s.free):]
}

// keep makes a string of what was appended to a slice of room.
func (s *slab) keep(dst []byte) string {
	if len(dst) == 0 {
		return ""
	}
	if len(dst) <= cap(s.free)-len(s.free) {
		s.free = s.free[:len(s.free)+len(dst)]
	}
	return unsafe.String(&dst[0], len(dst)) // nobody writes there any more
}

// name makes the name of kind for a channel.
func (s *slab) name(n *names, kind, ch string, hash uint64) string {
	return s.keep(n.append(s.room(nameSize(n, ch)), kind, ch, hash))
}

// nameSize is more than the name of any kind has.
func nameSize(n *names, ch string) int { return len(n.prefix) + len(ch) + 40 }

// result makes the name of an idempotency key's result.
func (s *slab) result(n *names, ch string, hash uint64, key string) string {
	dst := n.append(s.room(nameSize(n, ch)+1+len(key)), kindResult, ch, hash)
	return s.keep(append(append(dst, '.'), key...))
}

// maxTTL is longer than anything has to live, and no more than Redis can add to
// the time.
const maxTTL = 100 * 365 * 24 * time.Hour

// milliseconds of d, at least 1, in decimal.
func (s *slab) milliseconds(d time.Duration) string {
	d = min(d, maxTTL)
	return s.number(uint64(max((d+time.Millisecond-1)/time.Millisecond, 1)))
}

func (s *slab) number(n uint64) string {
	if n < 100 {
		return strconv.Itoa(int(n)) // constants of strconv
	}
	return s.keep(strconv.AppendUint(s.room(20), n, 10))
}

// epoch makes 8 random letters.
func (s *slab) epoch() string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	dst := s.room(8)
	for random := rand.Uint64(); len(dst) < 8; random /= uint64(len(letters)) {
		dst = append(dst, letters[random%uint64(len(letters))])
	}
	return s.keep(dst)
}

// publication makes the Protobuf of pub.
func (s *slab) publication(pub *channel.Publication, delta bool) string {
	most := len(pub.Data) + len(pub.Channel) + len(pub.Key) + 80
	if pub.Info != nil {
		most += len(pub.Info.User) + len(pub.Info.Client) + len(pub.Info.ConnInfo) + len(pub.Info.ChanInfo) + 60
	}
	for key, value := range pub.Tags {
		most += len(key) + len(value) + 32
	}
	return s.keep(payload.AppendPublication(s.room(most), pub, delta))
}

// info makes a join or leave, or with an empty mark a bare client info.
func (s *slab) info(mark string, info *channel.ClientInfo) string {
	most := len(mark) + len(info.User) + len(info.Client) + len(info.ConnInfo) + len(info.ChanInfo) + 60
	return s.keep(payload.AppendClientInfo(append(s.room(most), mark...), info))
}
