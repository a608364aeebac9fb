package grpcapi

import (
	"encoding/binary"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/gyrohq/gyro/protocol/wire/pbwire"
	"github.com/gyrohq/gyro/server/api"
)

// codec encodes the messages of the API by their generated code, and those of the services of grpc-go by
// the Protobuf runtime.
type codec struct{}

func (codec) Name() string { return proto.Name }

// incoming is a request that the codec decodes. err is what is wrong with its bytes.
type incoming struct {
	request api.Request
	err     error
}

// Unmarshal does not keep data.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*incoming)
	if !ok {
		return encoding.GetCodecV2(proto.Name).Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	in.err = in.request.UnmarshalProto(buf.ReadOnlyData())
	return nil
}

// outgoing is an answer that the codec encodes: a message in a field of the response, or, if the field is 0,
// the response itself.
type outgoing struct {
	field   byte
	message api.Result
}

// Fields of a response, with the wire type of messages.
const (
	fieldError  = 1<<3 | 2
	fieldResult = 2<<3 | 2
)

// nothing is the response with a result without fields.
var nothing = mem.BufferSlice{mem.SliceBuffer{fieldResult, 0}}

// Marshal borrows memory for long answers.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	out, ok := v.(outgoing)
	if !ok {
		return encoding.GetCodecV2(proto.Name).Marshal(v)
	}
	size := out.message.SizeProto()
	if size == 0 && out.field == fieldResult {
		return nothing, nil
	}
	head := 0
	if out.field != 0 {
		head = 1 + pbwire.SizeVarint(uint64(size))
	}
	var pool mem.BufferPool = mem.NopBufferPool{}
	if !mem.IsBelowBufferPoolingThreshold(head + size) {
		pool = mem.DefaultBufferPool()
	}
	buf := pool.Get(head + size)
	b := (*buf)[:0]
	if out.field != 0 {
		b = binary.AppendUvarint(append(b, out.field), uint64(size))
	}
	*buf = out.message.AppendProto(b)
	return mem.BufferSlice{mem.NewBuffer(buf, pool)}, nil
}
