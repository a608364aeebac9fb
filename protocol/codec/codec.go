// Package codec turns the frames of a connection into messages and back, in both
// encodings of the client protocol.
//
// A JSON frame is a sequence of lines, one message each. A Protobuf frame is a sequence of messages, each after its
// length as an unsigned varint.
package codec

import (
	"errors"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/wire/jsonwire"
)

// Codec is the server's side of one encoding. It has no state and is safe for
// concurrent use.
type Codec interface {
	Encoding() protocol.Encoding

	// DecodeCommand resets cmd, decodes the first command of frame into it, and returns the
	// rest of the frame; the caller goes on until that is empty. Nothing in cmd aliases
	// frame. A pong is a command without any field.
	//
	// With an error, the frame is malformed or empty, and cmd and rest are of no use. The
	// text says where and why; it may quote a part of a key, but no value.
	DecodeCommand(frame []byte, cmd *protocol.Command) (rest []byte, err error)

	// AppendReply appends one reply: in JSON without line break, in Protobuf with its length. If a payload cannot be
	// embedded, it returns dst unchanged and an error that wraps ErrNotJSON. Strings should be UTF-8: in JSON other
	// bytes become U+FFFD, in Protobuf clients may refuse them.
	AppendReply(dst []byte, r *protocol.Reply) ([]byte, error)

	// AppendPush appends a bare push, for a one-way connection.
	AppendPush(dst []byte, p *protocol.Push) ([]byte, error)
}

// ClientCodec is the client's side of one encoding. It has no state and is safe for
// concurrent use.
type ClientCodec interface {
	Encoding() protocol.Encoding

	// AppendCommand appends one command, as Codec.AppendReply a reply.
	AppendCommand(dst []byte, cmd *protocol.Command) ([]byte, error)

	// DecodeReply decodes the first reply of frame, as Codec.DecodeCommand a command. A ping is a reply without any
	// field.
	DecodeReply(frame []byte, r *protocol.Reply) (rest []byte, err error)

	// DecodePush decodes a bare push of a one-way connection.
	DecodePush(frame []byte, p *protocol.Push) (rest []byte, err error)
}

// ErrNotJSON: a payload cannot be sent to a JSON connection. It is not exactly one JSON value in valid UTF-8, or is
// nested more than 512 deep.
var ErrNotJSON = jsonwire.ErrNotJSON

var errEmptyFrame = errors.New("empty frame")

// DecodeConnect decodes the connect request of a one-way connection: the request alone, not within a command, and in
// Protobuf without its length. In JSON, null is an empty request, and everything after the first value is ignored.
// Nothing in req aliases data. The errors are those of Codec.DecodeCommand.
func DecodeConnect(e protocol.Encoding, data []byte, req *protocol.ConnectRequest) error {
	switch {
	case e == protocol.Protobuf:
		return req.UnmarshalProto(data)
	case len(data) == 0:
		return errEmptyFrame
	}
	return ignoreTrailing(req.UnmarshalJSON(data))
}

// For returns the server's codec of an encoding.
func For(e protocol.Encoding) Codec {
	if e == protocol.Protobuf {
		return protobufCodec{}
	}
	return jsonCodec{}
}

// ForClient returns the client's codec of an encoding.
func ForClient(e protocol.Encoding) ClientCodec {
	if e == protocol.Protobuf {
		return protobufCodec{}
	}
	return jsonCodec{}
}
