//go:build linux

package load

import (
	"bytes"
	"hash/maphash"

	"github.com/gyrohq/gyro/e2e/million/internal/plan"
	"github.com/gyrohq/gyro/e2e/million/internal/stamp"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

type message struct {
	reply *protocol.Reply // nil for a publication
	pub   publication
}

type publication struct {
	channel plan.Channel
	stamp   stamp.Stamp
	offset  uint64
	known   bool // published by this run
}

// decoder remembers frames with publications alone, as thousands of subscribers get the same bytes.
type decoder struct {
	seed     maphash.Seed
	slots    []remembered
	messages []message
}

type remembered struct {
	frame    []byte
	messages []message
}

const largestKept = 4 << 10

func newDecoder() *decoder {
	return &decoder{seed: maphash.MakeSeed(), slots: make([]remembered, 1<<10)}
}

// decode returns messages that are valid until the next call.
func (d *decoder) decode(c codec.ClientCodec, frame []byte) ([]message, error) {
	slot := &d.slots[maphash.Bytes(d.seed, frame)%uint64(len(d.slots))]
	if bytes.Equal(slot.frame, frame) {
		return slot.messages, nil
	}
	d.messages = d.messages[:0]
	alone := len(frame) <= largestKept
	for rest := frame; len(rest) > 0; {
		r := new(protocol.Reply)
		var err error
		if rest, err = c.DecodeReply(rest, r); err != nil {
			return nil, err
		}
		m := message{reply: r}
		if r.Push != nil && r.Push.Pub != nil {
			m = message{pub: read(r.Push.Channel, r.Push.Pub)}
		} else {
			alone = false
		}
		d.messages = append(d.messages, m)
	}
	if alone && len(d.messages) > 0 {
		slot.frame, slot.messages = append(slot.frame[:0], frame...), append(slot.messages[:0], d.messages...)
		return slot.messages, nil
	}
	return d.messages, nil
}

func read(name string, p *protocol.Publication) publication {
	channel, named := plan.Parse(name)
	s, stamped := stamp.Parse(p.Data)
	return publication{channel, s, p.Offset, named && stamped}
}
