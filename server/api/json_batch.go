package api

import (
	"bytes"
	"math/bits"

	"github.com/gyrohq/gyro/server/api/internal/jsonx"
)

func (r *BatchRequest) decode(d *jsonx.Decoder) {
	b := batchDecoder{d: d}
	for ok := d.Object(); ok; ok = d.NextMember() {
		switch string(d.Name()) {
		case "commands":
			r.Commands = b.commands()
		case "parallel":
			r.Parallel = d.Bool()
		default:
			d.Skip()
		}
	}
}

// batchDecoder reads the commands of a batch, which can be very many: nearly all of
// them are stored without an allocation of their own.
type batchDecoder struct {
	d    *jsonx.Decoder
	text jsonx.Arena
	// others are the members of the command that is being read, by method, but for
	// the one that is in its place already.
	others [MethodBatch]Command
}

func (b *batchDecoder) commands() []Command {
	var list []Command
	start := b.d.Pos()
	for ok := b.d.Array(); ok; ok = b.d.NextElement() {
		n := len(list)
		if n == cap(list) {
			list = append(make([]Command, 0, n+b.d.Expect(n, start)), list...)
		}
		list = list[:n+1]
		b.command(&list[n])
	}
	return list
}

// command reads a command into c, which is empty; null is malformed. Of several
// members the first in the order of the methods counts.
func (b *batchDecoder) command(c *Command) {
	if b.d.Null() {
		c.Malformed = true
		return
	}
	var members uint32 // that were found, as bits
	own := MethodBatch // the one that is in c
	for ok := b.d.Object(); ok; ok = b.d.NextMember() {
		m, known := batchMethod(b.d.Name())
		switch {
		case !known:
			b.d.Skip()
		case b.d.Null():
			members &^= 1 << m
		case members == 0 || m == own:
			if own != MethodBatch {
				*c = Command{}
			}
			b.request(m, c)
			members, own = members|1<<m, m
		default:
			b.others[m] = Command{}
			b.request(m, &b.others[m])
			members |= 1 << m
		}
	}
	switch first := Method(bits.TrailingZeros32(members)); {
	case members == 0:
		*c = Command{}
	case first != own:
		*c = b.others[first]
	}
}

// batchMethod finds a method that can be part of a batch.
func batchMethod(name []byte) (Method, bool) {
	if string(name) == "publish" { // as nearly always
		return MethodPublish, true
	}
	m, known := methodByName[string(name)]
	return m, known && m != MethodBatch
}

// request reads the request of a method into c, which is empty.
func (b *batchDecoder) request(m Method, c *Command) {
	if m == MethodPublish {
		b.publish(c)
		return
	}
	c.Request = m.NewRequest()
	c.Request.decode(b.d)
}

// publish reads a publish command. Only one that has more than a channel and data gets
// a request of its own: it is three times as large, and most have not.
func (b *batchDecoder) publish(c *Command) {
	var r *PublishRequest
	for ok := b.d.Object(); ok; ok = b.d.NextMember() {
		switch string(b.d.Name()) {
		case "channel":
			c.channel = b.text.String(b.d.StringView())
		case "data":
			c.data = b.text.Bytes(b.d.RawView())
		default:
			if r == nil {
				r = new(PublishRequest)
			}
			r.member(b.d)
		}
	}
	if r == nil && c.channel != "" {
		return
	}
	if r == nil {
		r = new(PublishRequest)
	}
	r.Channel, r.Data = c.channel, bytes.Clone(c.data)
	*c = Command{Request: r}
}
