package memory

import (
	"math"
	"unsafe"

	"github.com/gyrohq/gyro/channel"
)

// kept is a publication in a history: what most publications have in 32 bytes, and others as a whole,
// which takes 112 more. Histories may be most of what a node has in memory. The offset follows from the
// place in the history.
type kept struct {
	data *byte // of the payload; nil if that is nil
	// more is the *channel.Publication if flags has whole, else the *channel.ClientInfo.
	more  unsafe.Pointer
	time  int64
	size  uint32
	flags uint8
}

// Flags of a kept.
const (
	whole   = 1 << iota // the other fields are zero
	checked             // as Publication.Checked
)

func keep(pub *channel.Publication) kept {
	if !plain(pub) {
		return kept{more: unsafe.Pointer(pub), flags: whole}
	}
	k := kept{data: unsafe.SliceData(pub.Data), more: unsafe.Pointer(pub.Info), time: pub.Time, size: uint32(len(pub.Data))}
	if pub.Checked {
		k.flags = checked
	}
	return k
}

// plain tells whether a history keeps a part of the publication only.
func plain(pub *channel.Publication) bool {
	return pub.Tags == nil && pub.Version == 0 && pub.Channel == "" && pub.Key == "" && !pub.Removed && pub.Score == 0 &&
		uint64(len(pub.Data)) <= math.MaxUint32
}

// publication returns the publication, which has this offset. It uses the room unless it kept the whole.
func (k *kept) publication(offset uint64, room *channel.Publication) *channel.Publication {
	if k.flags&whole != 0 {
		return (*channel.Publication)(k.more)
	}
	*room = channel.Publication{
		Offset: offset, Data: unsafe.Slice(k.data, k.size), Info: (*channel.ClientInfo)(k.more), Time: k.time, Checked: k.flags&checked != 0,
	}
	return room
}
