package unigrpc

import (
	"google.golang.org/grpc/mem"

	"github.com/gyrohq/gyro/protocol"
)

// codec passes the messages of the core on as they are: each push is encoded once for all clients.
type codec struct{}

type message struct{ data []byte }

func (codec) Name() string { return "proto" }

// Marshal does not copy the message, which must not change any more.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.(*message).data)}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	v.(*message).data = data.Materialize()
	return nil
}

// framer leaves messages as they are: Protobuf, with a length before each.
type framer struct{}

func (framer) Encoding() protocol.Encoding { return protocol.Protobuf }
func (framer) Headroom() int               { return 0 }
func (framer) Costly() bool                { return false }
func (framer) Frame(buf []byte) []byte     { return buf }
