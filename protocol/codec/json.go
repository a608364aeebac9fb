package codec

import (
	"bytes"
	"errors"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/wire/jsonwire"
)

// AppendJSONString appends s as a JSON string, the form of a delta on JSON connections. Bytes that are not UTF-8 become
// U+FFFD.
func AppendJSONString(dst []byte, s []byte) []byte { return jsonwire.AppendBytes(dst, s) }

// ValidJSON reports whether p can be a payload on JSON connections: one JSON value in valid UTF-8, nested at most 512
// deep.
func ValidJSON(p []byte) bool { return jsonwire.Valid(p) }

type jsonCodec struct{}

func (jsonCodec) Encoding() protocol.Encoding { return protocol.JSON }

func (jsonCodec) DecodeCommand(frame []byte, cmd *protocol.Command) ([]byte, error) {
	return decodeLine(frame, cmd)
}

func (jsonCodec) DecodeReply(frame []byte, r *protocol.Reply) ([]byte, error) {
	return decodeLine(frame, r)
}

func (jsonCodec) DecodePush(frame []byte, p *protocol.Push) ([]byte, error) {
	return decodeLine(frame, p)
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

// decodeLine decodes the first line of frame. A line break at the end of the frame is optional.
func decodeLine(frame []byte, m interface{ UnmarshalJSON([]byte) error }) (rest []byte, err error) {
	if len(frame) == 0 {
		return nil, errEmptyFrame
	}
	line, rest, _ := bytes.Cut(frame, []byte{'\n'})
	return rest, ignoreTrailing(m.UnmarshalJSON(line))
}

// ignoreTrailing drops the error for text after the message: clients rely on that.
func ignoreTrailing(err error) error {
	if errors.Is(err, jsonwire.ErrTrailing) {
		return nil
	}
	return err
}
