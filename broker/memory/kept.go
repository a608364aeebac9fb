package memory

import (
	"unsafe"

	"github.com/gyrohq/gyro/channel"
)

// kept is a publication in a history. Most publications fit in 24 bytes; another one is kept as a whole, which takes 112
// bytes more. Histories may be most of a node's memory. The offset follows from the place in the history.
type kept struct {
	data *byte // of the payload; nil if that is nil
	// more is the *channel.Publication if facts has whole, else the *channel.ClientInfo.
	more  unsafe.Pointer
	facts facts
}

// facts of a kept are, from the lowest bit on, the two flags, the size of the payload, and the time of publishing.
type facts uint64

const (
	whole   facts = 1 << iota // the other facts are zero
	checked                   // as Publication.Checked
)

const (
	flagBits = 2
	sizeBits = 20                       // payloads below 1 MiB; beside larger ones, 112 bytes more do not matter
	timeBits = 64 - flagBits - sizeBits // milliseconds from 1970 to 2109
)

func (f facts) size() int   { return int(f >> flagBits & (1<<sizeBits - 1)) }
func (f facts) time() int64 { return int64(f >> (flagBits + sizeBits)) }

func keep(pub *channel.Publication) kept {
	if !plain(pub) {
		return kept{more: unsafe.Pointer(pub), facts: whole}
	}
	k := kept{
		data: unsafe.SliceData(pub.Data), more: unsafe.Pointer(pub.Info),
		facts: facts(pub.Time)<<(flagBits+sizeBits) | facts(len(pub.Data))<<flagBits,
	}
	if pub.Checked {
		k.facts |= checked
	}
	return k
}

// plain tells whether a history keeps a part of the publication only.
func plain(pub *channel.Publication) bool {
	return pub.Tags == nil && pub.Version == 0 && pub.Channel == "" && pub.Key == "" && !pub.Removed && pub.Score == 0 &&
		len(pub.Data) < 1<<sizeBits && uint64(pub.Time) < 1<<timeBits
}

// publication returns the publication, which has this offset. It uses the room unless it kept the whole.
func (k *kept) publication(offset uint64, room *channel.Publication) *channel.Publication {
	if k.facts&whole != 0 {
		return (*channel.Publication)(k.more)
	}
	*room = channel.Publication{
		Offset: offset, Data: unsafe.Slice(k.data, k.facts.size()), Info: (*channel.ClientInfo)(k.more), Time: k.facts.time(),
		Checked: k.facts&checked != 0,
	}
	return room
}
