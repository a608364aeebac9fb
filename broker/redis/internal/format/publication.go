package format

import (
	"encoding/binary"
	"errors"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol/wire/pbwire"
)

// ErrMalformed is the error of an envelope that cannot be read.
var ErrMalformed = errors.New("malformed payload")

// Readers take strings as they are. The generated reader of the client protocol refuses strings that are not UTF-8.

// AppendPublication leaves out the offset, which is not known yet. delta allows deltas without history.
func AppendPublication(dst []byte, pub *channel.Publication, delta bool) []byte {
	if !delta && isPlain(pub) {
		if len(pub.Data) > 0 {
			dst = binary.AppendUvarint(append(dst, tagData), uint64(len(pub.Data)))
			dst = append(dst, pub.Data...)
		}
		if pub.Time != 0 {
			dst = binary.AppendUvarint(append(dst, tagTime), uint64(pub.Time))
		}
		return dst
	}
	m := pub.Message()
	m.Offset, m.Delta = 0, delta
	return m.AppendProto(dst)
}

// isPlain: pub has nothing but data and a time, as most have. The general way takes three times as long.
func isPlain(pub *channel.Publication) bool {
	return pub.Info == nil && pub.Tags == nil && pub.Version == 0 &&
		pub.Channel == "" && pub.Key == "" && !pub.Removed && pub.Score == 0
}

// Tags of the fields (number<<3 | wire type), whose numbers other programs rely on.
const (
	tagData    = 4<<3 | wireBytes
	tagInfo    = 5<<3 | wireBytes
	tagOffset  = 6<<3 | wireVarint // of the base of a map's delta alone
	tagTags    = 7<<3 | wireBytes
	tagDelta   = 8<<3 | wireVarint
	tagTime    = 9<<3 | wireVarint
	tagChannel = 10<<3 | wireBytes
	tagKey     = 11<<3 | wireBytes
	tagRemoved = 12<<3 | wireVarint
	tagScore   = 13<<3 | wireVarint
	tagVersion = 16<<3 | wireVarint

	wireVarint = 0
	wireBytes  = 2
)

// ReadPublication fills pub; without an offset, Offset stays. Data and the bytes of Info are parts of data. delta is the
// argument of AppendPublication.
func ReadPublication(data []byte, pub *channel.Publication) (delta bool, err error) {
	if plain(data, pub) {
		return false, nil
	}
	r := pbwire.NewBorrowingReader(data)
	for r.Next() {
		switch r.Tag() {
		case tagData:
			pub.Data = r.Bytes()
		case tagInfo:
			if pub.Info == nil { // Protobuf merges a repeated message
				pub.Info = &channel.ClientInfo{}
			}
			outer := r.Enter()
			readInfo(&r, pub.Info)
			r.Leave(outer)
		case tagOffset:
			pub.Offset = r.Uint64()
		case tagTags:
			readTag(&r, pub)
		case tagDelta:
			delta = r.Bool()
		case tagTime:
			pub.Time = r.Int64()
		case tagChannel:
			pub.Channel = string(r.Bytes())
		case tagKey:
			pub.Key = string(r.Bytes())
		case tagRemoved:
			pub.Removed = r.Bool()
		case tagScore:
			pub.Score = r.Sint64()
		case tagVersion:
			pub.Version = r.Uint64()
		default:
			r.Skip()
		}
	}
	return delta, r.Err()
}

// plain reads nothing but data, of less than 16 KiB, and a time, in half of the time of the reader.
func plain(message []byte, pub *channel.Publication) bool {
	if len(message) < 4 || message[0] != tagData {
		return false
	}
	n, start := int(message[1]), 2
	if n >= 0x80 {
		n, start = n&0x7f|int(message[2])<<7, 3
	}
	end := start + n
	if end+1 >= len(message) || message[start-1] >= 0x80 || message[end] != tagTime {
		return false
	}
	time, size := binary.Uvarint(message[end+1:])
	if end+1+size != len(message) {
		return false
	}
	pub.Data, pub.Time = message[start:end:end], int64(time)
	return true
}

// ReadEntry reads an entry as the scripts keep it: offset:version:V:T: and V bytes of the version's epoch, T bytes of
// tags, and the publication.
func ReadEntry(value []byte, pub *channel.Publication) error {
	var numbers [4]uint64
	for i := range numbers {
		var err error
		if numbers[i], value, err = number(value); err != nil {
			return err
		}
	}
	size := uint64(len(value))
	if epoch, tags := numbers[2], numbers[3]; epoch > size || tags > size-epoch {
		return ErrMalformed
	}
	value = value[numbers[2]+numbers[3]:]
	if _, err := ReadPublication(value, pub); err != nil {
		return err
	}
	pub.Offset = numbers[0]
	return nil
}

// ReadClientInfo fills info, whose bytes are parts of data.
func ReadClientInfo(data []byte, info *channel.ClientInfo) error {
	r := pbwire.NewBorrowingReader(data)
	readInfo(&r, info)
	return r.Err()
}

func readInfo(r *pbwire.Reader, info *channel.ClientInfo) {
	for r.Next() {
		switch r.Tag() {
		case 1<<3 | wireBytes:
			info.User = string(r.Bytes())
		case 2<<3 | wireBytes:
			info.Client = string(r.Bytes())
		case 3<<3 | wireBytes:
			info.ConnInfo = r.Bytes()
		case 4<<3 | wireBytes:
			info.ChanInfo = r.Bytes()
		default:
			r.Skip()
		}
	}
}

func readTag(r *pbwire.Reader, pub *channel.Publication) {
	var key, value string
	outer := r.Enter()
	for r.Next() {
		switch r.Tag() {
		case 1<<3 | wireBytes:
			key = string(r.Bytes())
		case 2<<3 | wireBytes:
			value = string(r.Bytes())
		default:
			r.Skip()
		}
	}
	r.Leave(outer)
	if pub.Tags == nil {
		pub.Tags = map[string]string{}
	}
	pub.Tags[key] = value
}
