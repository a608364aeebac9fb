package memory

import (
	"unsafe"

	"github.com/gyrohq/gyro/channel"
)

// compact is a publication in a history: most fit in 24 bytes, another one is kept as a whole, in 112 bytes more.
// Histories may be most of a node's memory. The offset follows from the place in the history.
type compact struct {
	data *byte // of the payload; nil if that is nil
	// more is the *channel.Publication if packed has whole, else the *channel.ClientInfo.
	more   unsafe.Pointer
	packed packed
}

// packed has, from the lowest bit on, the two flags, the size of the payload, and the time of publishing.
type packed uint64

const (
	whole   packed = 1 << iota // nothing else is packed
	checked                    // as Publication.Checked
)

const (
	flagBits = 2
	sizeBits = 20                       // payloads below 1 MiB; beside larger ones, 112 bytes more do not matter
	timeBits = 64 - flagBits - sizeBits // milliseconds from 1970 to 2109
)

func (p packed) size() int   { return int(p >> flagBits & (1<<sizeBits - 1)) }
func (p packed) time() int64 { return int64(p >> (flagBits + sizeBits)) }

func compactOf(pub *channel.Publication) compact {
	if !plain(pub) {
		return compact{more: unsafe.Pointer(pub), packed: whole}
	}
	k := compact{
		data: unsafe.SliceData(pub.Data), more: unsafe.Pointer(pub.Info),
		packed: packed(pub.Time)<<(flagBits+sizeBits) | packed(len(pub.Data))<<flagBits,
	}
	if pub.Checked {
		k.packed |= checked
	}
	return k
}

func plain(pub *channel.Publication) bool {
	return pub.Tags == nil && pub.Version == 0 && pub.Channel == "" && pub.Key == "" && !pub.Removed && pub.Score == 0 &&
		len(pub.Data) < 1<<sizeBits && uint64(pub.Time) < 1<<timeBits
}

// publication uses the room unless it kept the whole.
func (k *compact) publication(offset uint64, room *channel.Publication) *channel.Publication {
	if k.packed&whole != 0 {
		return (*channel.Publication)(k.more)
	}
	*room = channel.Publication{
		Offset: offset, Data: unsafe.Slice(k.data, k.packed.size()), Info: (*channel.ClientInfo)(k.more), Time: k.packed.time(),
		Checked: k.packed&checked != 0,
	}
	return room
}
