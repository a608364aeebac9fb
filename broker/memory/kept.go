package memory

import (
	"math"
	"unsafe"

	"github.com/gyrohq/gyro/channel"
)

// kept is a publication in a history: what most publications have in 40 bytes, and others as a whole,
// which takes 112. Histories may be most of what a node has in memory. The offset follows from the place
// in the history.
type kept struct {
	data    *byte // of the payload; nil if that is nil
	size    uint32
	checked bool
	time    int64
	info    *channel.ClientInfo
	whole   *channel.Publication // if not nil, the other fields are zero
}

func keep(pub *channel.Publication) kept {
	if !plain(pub) {
		return kept{whole: pub}
	}
	return kept{data: unsafe.SliceData(pub.Data), size: uint32(len(pub.Data)), checked: pub.Checked, time: pub.Time, info: pub.Info}
}

// plain tells whether a history keeps a part of the publication only.
func plain(pub *channel.Publication) bool {
	return pub.Tags == nil && pub.Version == 0 && pub.Channel == "" && pub.Key == "" && !pub.Removed && pub.Score == 0 &&
		uint64(len(pub.Data)) <= math.MaxUint32
}

// publication returns the publication, which has this offset. It uses the room unless it kept the whole.
func (k *kept) publication(offset uint64, room *channel.Publication) *channel.Publication {
	if k.whole != nil {
		return k.whole
	}
	*room = channel.Publication{Offset: offset, Data: unsafe.Slice(k.data, k.size), Info: k.info, Time: k.time, Checked: k.checked}
	return room
}
