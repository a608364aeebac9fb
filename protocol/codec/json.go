package codec

import (
	"bytes"
	"errors"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/wire/jsonwire"
)

// AppendJSONString appends s as a JSON string, quotes included; so a delta travels
// on JSON connections. Valid UTF-8 comes back as it was; other bytes become U+FFFD.
func AppendJSONString(dst []byte, s []byte) []byte {
	return jsonwire.AppendBytes(dst, s)
}

// ValidJSON reports whether p is one JSON value in valid UTF-8, nested at most 512
// deep: whether it can be the payload of a message to a JSON connection.
func ValidJSON(p []byte) bool {
	return jsonwire.Valid(p)
}

type jsonCodec struct{}

func (jsonCodec) Encoding() protocol.Encoding { return protocol.JSON }

func (jsonCodec) DecodeCommand(frame []byte, cmd *protocol.Command) ([]byte, error) {
	line, rest, err := cutLine(frame)
	if err != nil {
		return nil, err
	}
	return rest, ignoreTrailing(cmd.UnmarshalJSON(line))
}

func (jsonCodec) DecodeReply(frame []byte, r *protocol.Reply) ([]byte, error) {
	line, rest, err := cutLine(frame)
	if err != nil {
		return nil, err
	}
	return rest, ignoreTrailing(r.UnmarshalJSON(line))
}

func (jsonCodec) DecodePush(frame []byte, p *protocol.Push) ([]byte, error) {
	line, rest, err := cutLine(frame)
	if err != nil {
		return nil, err
	}
	return rest, ignoreTrailing(p.UnmarshalJSON(line))
}

func (jsonCodec) AppendReply(dst []byte, r *protocol.Reply) ([]byte, error) {
	return r.AppendJSON(dst)
}

func (jsonCodec) AppendPush(dst []byte, p *protocol.Push) ([]byte, error) {
	return p.AppendJSON(dst)
}

func (jsonCodec) AppendCommand(dst []byte, cmd *protocol.Command) ([]byte, error) {
	return cmd.AppendJSON(dst)
}

// cutLine cuts the first line off frame. The last one needs no line break, and
// there is no empty line behind the last break.
func cutLine(frame []byte) (line, rest []byte, err error) {
	if len(frame) == 0 {
		return nil, nil, errEmptyFrame
	}
	line, rest, _ = bytes.Cut(frame, []byte{'\n'})
	return line, rest, nil
}

// ignoreTrailing lets whatever follows the message on its line pass: clients rely
// on it being ignored.
func ignoreTrailing(err error) error {
	if errors.Is(err, jsonwire.ErrTrailing) {
		return nil
	}
	return err
}
