package grpcapi

import (
	"encoding/binary"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/gyrohq/gyro/protocol/wire/pbwire"
	"github.com/gyrohq/gyro/server/internal/api"
)

// codec encodes messages of the API with generated code, and of services of grpc-go with the Protobuf runtime.
type codec struct{}

func (codec) Name() string { return proto.Name }

type call struct {
	request api.Request
	err     error // the mistake in the bytes of the request
	// answer is in this field of the response; 0: it is the response.
	field  byte
	answer api.Result
}

// Unmarshal does not keep data.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	c, ok := v.(*call)
	if !ok {
		return encoding.GetCodecV2(proto.Name).Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	c.err = c.request.UnmarshalProto(buf.ReadOnlyData())
	return nil
}

const (
	fieldError  = 1<<3 | 2
	fieldResult = 2<<3 | 2
)

var nothing = mem.BufferSlice{mem.SliceBuffer{fieldResult, 0}}

// Marshal borrows memory for long answers.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	c, ok := v.(*call)
	if !ok {
		return encoding.GetCodecV2(proto.Name).Marshal(v)
	}
	size := c.answer.SizeProto()
	if size == 0 && c.field == fieldResult {
		return nothing, nil
	}
	head := 0
	if c.field != 0 {
		head = 1 + pbwire.SizeVarint(uint64(size))
	}
	var pool mem.BufferPool = mem.NopBufferPool{}
	if !mem.IsBelowBufferPoolingThreshold(head + size) {
		pool = mem.DefaultBufferPool()
	}
	buf := pool.Get(head + size)
	b := (*buf)[:0]
	if c.field != 0 {
		b = binary.AppendUvarint(append(b, c.field), uint64(size))
	}
	*buf = c.answer.AppendProto(b)
	return mem.BufferSlice{mem.NewBuffer(buf, pool)}, nil
}
