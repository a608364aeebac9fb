package schema

import (
	"encoding/binary"
	"errors"

	"github.com/gyrohq/gyro/channel"
)

// Flags of an encoded row.
const (
	flagRemoved = 1 << iota
	flagDelta
	flagInfo
	flagPrev
)

// Append encodes the row, for other nodes of the same program.
func (r *Row) Append(dst []byte) []byte {
	var flags byte
	for flag, set := range map[byte]bool{flagRemoved: r.Pub.Removed, flagDelta: r.Delta, flagInfo: r.Pub.Info != nil, flagPrev: r.Prev != nil} {
		if set {
			flags |= flag
		}
	}
	dst = append(dst, byte(r.Kind), flags)
	dst = appendText(dst, r.Channel)
	dst = appendText(dst, r.Epoch)
	dst = appendText(dst, r.Pub.Key)
	dst = binary.AppendUvarint(dst, r.Pub.Offset)
	dst = binary.AppendUvarint(dst, r.Pub.Version)
	dst = binary.AppendVarint(dst, r.Pub.Score)
	dst = appendPart(dst, &r.Pub)
	if i := r.Pub.Info; i != nil {
		dst = appendText(dst, i.Client)
		dst = appendText(dst, i.User)
		dst = appendData(dst, i.ConnInfo)
		dst = appendData(dst, i.ChanInfo)
	}
	if r.Prev != nil {
		dst = binary.AppendUvarint(dst, r.Prev.Offset)
		dst = appendPart(dst, r.Prev)
	}
	return dst
}

func appendPart(dst []byte, p *channel.Publication) []byte {
	dst = binary.AppendVarint(dst, p.Time)
	dst = appendData(dst, p.Data)
	dst = binary.AppendUvarint(dst, uint64(len(p.Tags)))
	for name, value := range p.Tags {
		dst = appendText(appendText(dst, name), value)
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendData(dst, data []byte) []byte {
	if data == nil {
		return append(dst, 0)
	}
	return append(binary.AppendUvarint(dst, uint64(len(data))+1), data...)
}

var errEncoding = errors.New("not an encoded row")

// Decode reads a row that Append has encoded. The row keeps parts of data.
func (r *Row) Decode(data []byte) error {
	d := decoder{rest: data}
	*r = Row{Kind: int16(d.byte())}
	flags := d.byte()
	r.Channel, r.Epoch, r.Pub.Key = d.text(), d.text(), d.text()
	r.Pub.Offset, r.Pub.Version, r.Pub.Score = d.number(), d.number(), d.signed()
	d.part(&r.Pub)
	r.Pub.Removed, r.Delta = flags&flagRemoved != 0, flags&flagDelta != 0
	if flags&flagInfo != 0 {
		r.Pub.Info = &channel.ClientInfo{Client: d.text(), User: d.text(), ConnInfo: d.data(), ChanInfo: d.data()}
	}
	if flags&flagPrev != 0 {
		r.Prev = &channel.Publication{Offset: d.number(), Key: r.Pub.Key}
		d.part(r.Prev)
	}
	if d.failed || len(d.rest) > 0 {
		return errEncoding
	}
	return nil
}

// decoder reads from the front. After a failure all is zero.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) fail() {
	d.rest, d.failed = nil, true
}

func (d *decoder) byte() (b byte) {
	if taken := d.take(1); len(taken) == 1 {
		b = taken[0]
	}
	return b
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.fail()
		return nil
	}
	taken := d.rest[:n:n]
	d.rest = d.rest[n:]
	return taken
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) signed() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) text() string { return string(d.take(d.number())) }

func (d *decoder) data() []byte {
	n := d.number()
	if n == 0 {
		return nil
	}
	return d.take(n - 1)
}

func (d *decoder) part(p *channel.Publication) {
	p.Time, p.Data = d.signed(), d.data()
	n := d.number()
	if n == 0 || n > uint64(len(d.rest)) { // a tag has two bytes at least
		if n > 0 {
			d.fail()
		}
		return
	}
	p.Tags = make(map[string]string, n)
	for range n {
		name := d.text()
		p.Tags[name] = d.text()
	}
}
