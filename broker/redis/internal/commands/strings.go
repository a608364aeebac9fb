package commands

import (
	"strconv"
	"time"
	"unsafe"

	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/random"
)

// Strings makes strings that share allocations, so none should live much longer than its call. It is for one goroutine;
// the zero value begins small.
type Strings struct {
	free []byte
	size int // of the next chunk
}

// MaxChunk is what chunks grow to, in bytes.
const MaxChunk = 64 << 10

// NewStrings returns Strings whose first chunk has size bytes.
func NewStrings(size int) Strings { return Strings{size: size} }

func (s *Strings) room(most int) []byte {
	if cap(s.free)-len(s.free) < most {
		s.free = make([]byte, 0, max(s.size, most))
		s.size = min(max(2*s.size, 1<<10), MaxChunk)
	}
	return s.free[len(s.free):]
}

func (s *Strings) keep(dst []byte) string {
	if len(dst) == 0 {
		return ""
	}
	if len(dst) <= cap(s.free)-len(s.free) {
		s.free = s.free[:len(s.free)+len(dst)]
	}
	return unsafe.String(&dst[0], len(dst)) // these bytes do not change any more
}

// Name of a kind for a channel and its hash.
func (s *Strings) Name(n *format.Names, kind format.KeyKind, ch string, hash uint64) string {
	return s.keep(n.Append(s.room(n.Size(ch)), kind, ch, hash))
}

// Result is the name of an idempotency key's result.
func (s *Strings) Result(n *format.Names, ch string, hash uint64, key string) string {
	return s.keep(n.AppendResult(s.room(n.Size(ch)+1+len(key)), ch, hash, key))
}

// maxTTL is as much as Redis can add to the time.
const maxTTL = 100 * 365 * 24 * time.Hour

// Milliseconds of d, at least 1, in decimal.
func (s *Strings) Milliseconds(d time.Duration) string {
	d = min(d, maxTTL)
	return s.Number(uint64(max((d+time.Millisecond-1)/time.Millisecond, 1)))
}

// Number is n in decimal.
func (s *Strings) Number(n uint64) string {
	if n < 100 {
		return strconv.Itoa(int(n)) // constants of strconv
	}
	return s.keep(strconv.AppendUint(s.room(20), n, 10))
}

// Epoch is 8 random letters.
func (s *Strings) Epoch() string {
	return s.keep(enginekit.AppendEpoch(s.room(enginekit.EpochSize), random.Uint64()))
}

// Life is an epoch for a new life of a stream, then offset:epoch of the known position.
func (s *Strings) Life(epoch string, offset uint64) string {
	dst := enginekit.AppendEpoch(s.room(enginekit.EpochSize+21+len(epoch)), random.Uint64())
	if epoch != "" {
		dst = append(strconv.AppendUint(dst, offset, 10), ':')
		dst = append(dst, epoch...)
	}
	return s.keep(dst)
}

// Publication is the Protobuf of pub.
func (s *Strings) Publication(pub *channel.Publication, delta bool) string {
	most := len(pub.Data) + len(pub.Channel) + len(pub.Key) + 80
	if pub.Info != nil {
		most += len(pub.Info.User) + len(pub.Info.Client) + len(pub.Info.ConnInfo) + len(pub.Info.ChanInfo) + 60
	}
	for key, value := range pub.Tags {
		most += len(key) + len(value) + 32
	}
	return s.keep(format.AppendPublication(s.room(most), pub, delta))
}

// ClientInfo is a message with a prefix, or a client info alone.
func (s *Strings) ClientInfo(prefix string, info *channel.ClientInfo) string {
	most := len(prefix) + len(info.User) + len(info.Client) + len(info.ConnInfo) + len(info.ChanInfo) + 60
	return s.keep(info.AppendProto(append(s.room(most), prefix...)))
}
