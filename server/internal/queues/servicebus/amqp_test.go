package servicebus

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// The part of AMQP 1.0 that the fake needs: types, and frames.

type (
	symbol    string
	described struct {
		code  uint64
		value any
	}
	dict map[any]any
)

// Codes of performatives, states and sections.
const (
	codeOpen, codeBegin, codeAttach, codeFlow, codeTransfer, codeDisposition, codeDetach, codeEnd, codeClose = 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18

	codeError, codeAccepted, codeRejected, codeReleased, codeModified, codeSource = 0x1d, 0x24, 0x25, 0x26, 0x27, 0x28

	codeMechanisms, codeOutcome = 0x40, 0x44

	codeHeader, codeAnnotations, codeProperties, codeApplication, codeData, codeValue = 0x70, 0x72, 0x73, 0x74, 0x75, 0x77
)

// encode appends a value.
func encode(b []byte, v any) []byte {
	sized := func(code byte, data []byte, count ...uint32) []byte {
		b = binary.BigEndian.AppendUint32(append(b, code), uint32(len(data)+4*len(count)))
		for _, n := range count {
			b = binary.BigEndian.AppendUint32(b, n)
		}
		return append(b, data...)
	}
	switch v := v.(type) {
	case nil:
		return append(b, 0x40)
	case bool:
		if v {
			return append(b, 0x41)
		}
		return append(b, 0x42)
	case uint8:
		return append(b, 0x50, v)
	case uint16:
		return binary.BigEndian.AppendUint16(append(b, 0x60), v)
	case uint32:
		return binary.BigEndian.AppendUint32(append(b, 0x70), v)
	case uint64:
		return binary.BigEndian.AppendUint64(append(b, 0x80), v)
	case int32:
		return binary.BigEndian.AppendUint32(append(b, 0x71), uint32(v))
	case int64:
		return binary.BigEndian.AppendUint64(append(b, 0x81), uint64(v))
	case time.Time:
		return binary.BigEndian.AppendUint64(append(b, 0x83), uint64(v.UnixMilli()))
	case [16]byte:
		return append(append(b, 0x98), v[:]...)
	case []byte:
		return sized(0xb0, v)
	case string:
		return sized(0xb1, []byte(v))
	case symbol:
		return sized(0xb3, []byte(v))
	case []symbol:
		data := []byte{0xb3}
		for _, s := range v {
			data = append(binary.BigEndian.AppendUint32(data, uint32(len(s))), s...)
		}
		return sized(0xf0, data, uint32(len(v)))
	case []any:
		var data []byte
		for _, e := range v {
			data = encode(data, e)
		}
		return sized(0xd0, data, uint32(len(v)))
	case dict:
		var data []byte
		for _, k := range slices.Collect(maps.Keys(v)) {
			data = encode(encode(data, k), v[k])
		}
		return sized(0xd1, data, uint32(2*len(v)))
	case described:
		if v.code < 256 {
			return encode(append(b, 0x00, 0x53, byte(v.code)), v.value)
		}
		return encode(binary.BigEndian.AppendUint64(append(b, 0x00, 0x80), v.code), v.value)
	}
	panic(fmt.Sprintf("cannot encode %T", v))
}

// decoder reads values; what is not well-formed panics.
type decoder struct{ b []byte }

func (d *decoder) take(n int) []byte {
	taken := d.b[:n]
	d.b = d.b[n:]
	return taken
}

func (d *decoder) number(size int) (n uint64) {
	for _, c := range d.take(size) {
		n = n<<8 | uint64(c)
	}
	return n
}

func (d *decoder) value() any {
	code := d.take(1)[0]
	if code == 0 {
		descriptor, ok := d.value().(uint64)
		if !ok {
			panic("a descriptor is no number")
		}
		return described{descriptor, d.value()}
	}
	return d.of(code)
}

// of reads a value behind its constructor.
func (d *decoder) of(code byte) any {
	switch code {
	case 0x40:
		return nil
	case 0x41, 0x42:
		return code == 0x41
	case 0x56:
		return d.number(1) == 1
	case 0x50:
		return uint8(d.number(1))
	case 0x60:
		return uint16(d.number(2))
	case 0x43:
		return uint32(0)
	case 0x52:
		return uint32(d.number(1))
	case 0x70:
		return uint32(d.number(4))
	case 0x44:
		return uint64(0)
	case 0x53:
		return d.number(1)
	case 0x80:
		return d.number(8)
	case 0x54:
		return int32(int8(d.number(1)))
	case 0x71:
		return int32(d.number(4))
	case 0x55:
		return int64(int8(d.number(1)))
	case 0x81:
		return int64(d.number(8))
	case 0x83:
		return time.UnixMilli(int64(d.number(8)))
	case 0x98:
		return [16]byte(d.take(16))
	}
	size := 1
	if code&0x10 != 0 {
		size = 4
	}
	switch code {
	case 0xa0, 0xb0:
		return slices.Clone(d.take(int(d.number(size))))
	case 0xa1, 0xb1:
		return string(d.take(int(d.number(size))))
	case 0xa3, 0xb3:
		return symbol(d.take(int(d.number(size))))
	case 0x45:
		return []any{}
	case 0xc0, 0xd0, 0xc1, 0xd1, 0xe0, 0xf0:
		inner := decoder{d.take(int(d.number(size)))}
		return inner.compound(code, int(inner.number(size)))
	}
	panic(fmt.Sprintf("cannot decode constructor %#x", code))
}

func (d *decoder) compound(code byte, count int) any {
	switch code {
	case 0xe0, 0xf0:
		var symbols []symbol
		var others []any
		element := d.take(1)[0]
		for range count {
			switch v := d.of(element).(type) {
			case symbol:
				symbols = append(symbols, v)
			default:
				others = append(others, v)
			}
		}
		if others != nil {
			return others
		}
		return symbols
	case 0xc1, 0xd1:
		m := dict{}
		for range count / 2 {
			key := d.value()
			m[key] = d.value()
		}
		return m
	}
	list := make([]any, count)
	for i := range list {
		list[i] = d.value()
	}
	return list
}

// frame is one of AMQP or of SASL.
type frame struct {
	sasl    bool
	channel uint16
	code    uint64 // 0: empty
	fields  []any
	payload []byte
}

// field returns a field of a frame, its zero value if it is missing.
func field[T any](f *frame, i int) (v T) {
	if i < len(f.fields) {
		v, _ = f.fields[i].(T)
	}
	return v
}

func readFrame(r io.Reader) (f frame, err error) {
	var head [8]byte
	if _, err = io.ReadFull(r, head[:]); err != nil {
		return f, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:])-8)
	if _, err = io.ReadFull(r, body); err != nil {
		return f, err
	}
	f.sasl, f.channel = head[5] == 1, binary.BigEndian.Uint16(head[6:])
	d := decoder{body[4*int(head[4])-8:]}
	if len(d.b) > 0 {
		performative := d.value().(described)
		f.code, f.fields, f.payload = performative.code, performative.value.([]any), d.b
	}
	return f, nil
}

func writeFrame(w io.Writer, f frame) error {
	b := []byte{0, 0, 0, 0, 2, 0, 0, 0}
	if f.sasl {
		b[5] = 1
	}
	binary.BigEndian.PutUint16(b[6:], f.channel)
	b = append(encode(b, described{f.code, f.fields}), f.payload...)
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	_, err := w.Write(b)
	return err
}

// sections divides a message.
func sections(payload []byte) map[uint64]any {
	all := make(map[uint64]any)
	for d := (decoder{payload}); len(d.b) > 0; {
		s := d.value().(described)
		all[s.code] = s.value
	}
	return all
}
