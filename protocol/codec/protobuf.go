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
	message, rest, err := cutMessage(frame)
	if err != nil {
		return nil, err
	}
	return rest, cmd.UnmarshalProto(message)
}

func (protobufCodec) DecodeReply(frame []byte, r *protocol.Reply) ([]byte, error) {
	message, rest, err := cutMessage(frame)
	if err != nil {
		return nil, err
	}
	return rest, r.UnmarshalProto(message)
}

func (protobufCodec) DecodePush(frame []byte, p *protocol.Push) ([]byte, error) {
	message, rest, err := cutMessage(frame)
	if err != nil {
		return nil, err
	}
	return rest, p.UnmarshalProto(message)
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

// cutMessage cuts the first message off frame. The announced length is compared
// with what is there before anything else happens with it.
func cutMessage(frame []byte) (message, rest []byte, err error) {
	if len(frame) == 0 {
		return nil, nil, errEmptyFrame
	}
	size, n := binary.Uvarint(frame)
	if n <= 0 {
		return nil, nil, errors.New("protobuf: truncated or overlong length of a message")
	}
	if size > uint64(len(frame)-n) {
		return nil, nil, fmt.Errorf("protobuf: length %d of a message, but %d bytes are left", size, len(frame)-n)
	}
	end := n + int(size)
	return frame[n:end:end], frame[end:], nil
}
