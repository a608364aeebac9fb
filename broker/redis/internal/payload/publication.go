// Package payload is what Gyro's nodes write to Redis: publications and client
// infos as Protobuf, and the envelope that carries a publication's place in the
// stream (engines.md 8.5).
package payload

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/gyrohq/gyro/channel"
)

// ErrMalformed tells that bytes are not what they should be.
var ErrMalformed = errors.New("malformed payload")

// Fields of the messages, with the numbers of engines.md 8.5.
const (
	fieldData    = 4
	fieldInfo    = 5
	fieldTags    = 7
	fieldDelta   = 8
	fieldTime    = 9
	fieldChannel = 10
	fieldKey     = 11
	fieldRemoved = 12
	fieldScore   = 13
	fieldVersion = 16

	infoUser     = 1
	infoClient   = 2
	infoConnInfo = 3
	infoChanInfo = 4

	tagKey   = 1
	tagValue = 2
)

// Wire types of Protobuf.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// AppendPublication appends pub as Protobuf. Its offset is not part of it, since
// it is not known yet. delta marks a publication without history of which deltas
// may be made.
func AppendPublication(dst []byte, pub *channel.Publication, delta bool) []byte {
	dst = appendBytes(dst, fieldData, pub.Data)
	if pub.Info != nil {
		dst = binary.AppendUvarint(dst, fieldInfo<<3|wireBytes)
		dst = binary.AppendUvarint(dst, uint64(infoSize(pub.Info)))
		dst = AppendClientInfo(dst, pub.Info)
	}
	for key, value := range pub.Tags {
		dst = binary.AppendUvarint(dst, fieldTags<<3|wireBytes)
		dst = binary.AppendUvarint(dst, uint64(bytesSize(len(key))+bytesSize(len(value))))
		dst = appendBytes(dst, tagKey, key)
		dst = appendBytes(dst, tagValue, value)
	}
	dst = appendBool(dst, fieldDelta, delta)
	dst = appendVarint(dst, fieldTime, uint64(pub.Time))
	dst = appendBytes(dst, fieldChannel, pub.Channel)
	dst = appendBytes(dst, fieldKey, pub.Key)
	dst = appendBool(dst, fieldRemoved, pub.Removed)
	dst = appendVarint(dst, fieldScore, uint64(pub.Score)<<1^uint64(pub.Score>>63))
	return appendVarint(dst, fieldVersion, pub.Version)
}

// AppendClientInfo appends info as Protobuf.
func AppendClientInfo(dst []byte, info *channel.ClientInfo) []byte {
	dst = appendBytes(dst, infoUser, info.User)
	dst = appendBytes(dst, infoClient, info.Client)
	dst = appendBytes(dst, infoConnInfo, info.ConnInfo)
	return appendBytes(dst, infoChanInfo, info.ChanInfo)
}

func infoSize(info *channel.ClientInfo) int {
	return bytesSize(len(info.User)) + bytesSize(len(info.Client)) + bytesSize(len(info.ConnInfo)) + bytesSize(len(info.ChanInfo))
}

// bytesSize of a field with a number below 16.
func bytesSize(n int) int {
	if n == 0 {
		return 0
	}
	return 1 + (bits.Len64(uint64(n))+6)/7 + n
}

func appendBytes[T string | []byte](dst []byte, field int, value T) []byte {
	if len(value) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(field)<<3|wireBytes)
	dst = binary.AppendUvarint(dst, uint64(len(value)))
	return append(dst, value...)
}

func appendVarint(dst []byte, field int, value uint64) []byte {
	if value == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(field)<<3|wireVarint)
	return binary.AppendUvarint(dst, value)
}

func appendBool(dst []byte, field int, value bool) []byte {
	if !value {
		return dst
	}
	return appendVarint(dst, field, 1)
}

// Publication fills pub with what data says; Offset stays. Data and the bytes of
// Info are parts of data, the rest is copied. delta is what AppendPublication got.
// Unknown fields are skipped, also those of map channels that pub has no place for.
func Publication(data []byte, pub *channel.Publication) (delta bool, err error) {
	pub.Data, data = leadingData(data)
	for r := (reader{data}); len(r.rest) > 0; {
		f, err := r.next()
		if err != nil {
			return false, err
		}
		switch f.key {
		case fieldData<<3 | wireBytes:
			pub.Data = f.bytes
		case fieldInfo<<3 | wireBytes:
			if pub.Info == nil { // Protobuf merges a repeated message
				pub.Info = &channel.ClientInfo{}
			}
			if err := ClientInfo(f.bytes, pub.Info); err != nil {
				return false, err
			}
		case fieldTags<<3 | wireBytes:
			if err := addTag(f.bytes, pub); err != nil {
				return false, err
			}
		case fieldDelta<<3 | wireVarint:
			delta = f.number != 0
		case fieldTime<<3 | wireVarint:
			pub.Time = int64(f.number)
		case fieldChannel<<3 | wireBytes:
			pub.Channel = string(f.bytes)
		case fieldKey<<3 | wireBytes:
			pub.Key = string(f.bytes)
		case fieldRemoved<<3 | wireVarint:
			pub.Removed = f.number != 0
		case fieldScore<<3 | wireVarint:
			pub.Score = int64(f.number>>1) ^ -int64(f.number&1)
		case fieldVersion<<3 | wireVarint:
			pub.Version = f.number
		}
	}
	return delta, nil
}

// leadingData takes the field that nearly all publications begin with, and is nearly all of
// them, in a third of the time of the usual way. It takes nothing unless that is it.
func leadingData(message []byte) (data, rest []byte) {
	if len(message) < 3 || message[0] != fieldData<<3|wireBytes {
		return nil, message
	}
	n, start := int(message[1]), 2
	if n >= 0x80 {
		if message[2] >= 0x80 {
			return nil, message
		}
		n, start = n&0x7f|int(message[2])<<7, 3
	}
	if end := start + n; end <= len(message) {
		return message[start:end:end], message[end:]
	}
	return nil, message
}

// ClientInfo fills info with what data says, of which its bytes are parts.
func ClientInfo(data []byte, info *channel.ClientInfo) error {
	for r := (reader{data}); len(r.rest) > 0; {
		f, err := r.next()
		if err != nil {
			return err
		}
		switch f.key {
		case infoUser<<3 | wireBytes:
			info.User = string(f.bytes)
		case infoClient<<3 | wireBytes:
			info.Client = string(f.bytes)
		case infoConnInfo<<3 | wireBytes:
			info.ConnInfo = f.bytes
		case infoChanInfo<<3 | wireBytes:
			info.ChanInfo = f.bytes
		}
	}
	return nil
}

func addTag(data []byte, pub *channel.Publication) error {
	var key, value string
	for r := (reader{data}); len(r.rest) > 0; {
		f, err := r.next()
		if err != nil {
			return err
		}
		switch f.key {
		case tagKey<<3 | wireBytes:
			key = string(f.bytes)
		case tagValue<<3 | wireBytes:
			value = string(f.bytes)
		}
	}
	if pub.Tags == nil {
		pub.Tags = map[string]string{}
	}
	pub.Tags[key] = value
	return nil
}

// field as it stands on the wire: bytes for the wire type of the same name,
// number for varints.
type field struct {
	key    uint64 // field number << 3 | wire type
	number uint64
	bytes  []byte
}

type reader struct{ rest []byte }

// next reads one field. Groups, which proto3 does not have, are malformed.
func (r *reader) next() (f field, err error) {
	if f.key, err = r.varint(); err != nil {
		return f, err
	}
	if number := f.key >> 3; number == 0 || number > 1<<29-1 {
		return f, ErrMalformed
	}
	switch f.key & 7 {
	case wireVarint:
		f.number, err = r.varint()
	case wireBytes:
		var n uint64
		if n, err = r.varint(); err == nil {
			f.bytes, err = r.take(n)
		}
	case wireFixed64:
		_, err = r.take(8)
	case wireFixed32:
		_, err = r.take(4)
	default:
		err = ErrMalformed
	}
	return f, err
}

func (r *reader) varint() (uint64, error) {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		return 0, ErrMalformed
	}
	r.rest = r.rest[n:]
	return v, nil
}

func (r *reader) take(n uint64) ([]byte, error) {
	if n > uint64(len(r.rest)) {
		return nil, ErrMalformed
	}
	taken := r.rest[:n:n]
	r.rest = r.rest[n:]
	return taken, nil
}
