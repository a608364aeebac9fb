package codec

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gyrohq/gyro/protocol"
)

type protobufCodec struct{}

func (protobufCodec) Encoding() protocol.Encoding { return protocol.Protobuf }

func (protobufCodec) DecodeCommand(frame []byte, cmd *protocol.Command) ([]byte, error) {
	return decodeMessage(frame, cmd)
}

func (protobufCodec) DecodeReply(frame []byte, r *protocol.Reply) ([]byte, error) {
	return decodeMessage(frame, r)
}

func (protobufCodec) DecodePush(frame []byte, p *protocol.Push) ([]byte, error) {
	return decodeMessage(frame, p)
}

func (protobufCodec) AppendReply(dst []byte, r *protocol.Reply) ([]byte, error) {
	return r.AppendDelimited(dst), nil
}

func (protobufCodec) AppendPush(dst []byte, p *protocol.Push) ([]byte, error) {
	return p.AppendDelimited(dst), nil
}

func (protobufCodec) AppendCommand(dst []byte, cmd *protocol.Command) ([]byte, error) {
	return cmd.AppendDelimited(dst), nil
}

// decodeMessage decodes the first message of frame. It compares the announced length with the frame before it uses it.
func decodeMessage(frame []byte, m interface{ UnmarshalProto([]byte) error }) (rest []byte, err error) {
	if len(frame) == 0 {
		return nil, errEmptyFrame
	}
	size, n := binary.Uvarint(frame)
	if n <= 0 {
		return nil, errors.New("protobuf: truncated or overlong length of a message")
	}
	if size > uint64(len(frame)-n) {
		return nil, fmt.Errorf("protobuf: length %d of a message, but %d bytes are left", size, len(frame)-n)
	}
	end := n + int(size)
	return frame[end:], m.UnmarshalProto(frame[n:end:end])
}
