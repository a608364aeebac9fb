package connkind

import (
	"errors"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/protocol/wire/jsonwire"
	"github.com/gyrohq/gyro/transport"
)

// Sessions reports whether the connections have session IDs.
func (k *Kind) Sessions() bool { return k.Mode != transport.Bidirectional }

// Emulated reports whether clients send their commands in requests, which name the node and
// the session.
func (k *Kind) Emulated() bool { return k.Mode == transport.Emulated || k.Mode == transport.Poll }

// Pongs reports whether clients answer pings.
func (k *Kind) Pongs() bool { return k.Mode == transport.Bidirectional || k.Mode == transport.Emulated }

// Compacts reports whether a client with this name knows channels by numbers (channel compaction). All SDKs offer it,
// but in Protobuf centrifuge-js, up to 5.8 at least, does not find the subscription of a number and drops the message.
// It may have any name, so in Protobuf compaction needs the default name of an SDK that is known to work.
func (k *Kind) Compacts(name string) bool {
	return k.Framer.Encoding() == protocol.JSON || name == "go" || name == "python"
}

// flagDictionary in the flags of a connect request offers to use a dictionary; in a result it accepts the offer.
const flagDictionary = 1 << 0

// Result accepts an offered dictionary if there is one for the client.
func (k *Kind) Result(req *protocol.ConnectRequest, user string, data []byte) protocol.ConnectResult {
	r := protocol.ConnectResult{Data: data}
	if req.Flag&flagDictionary == 0 {
		return r
	}
	for _, c := range k.behind {
		if r.Dict = c.Offer(req, user); r.Dict != nil {
			r.Flag = flagDictionary
			break
		}
	}
	return r
}

// Behind returns the kind that a connection is of behind its connect result.
func (k *Kind) Behind(r *protocol.ConnectResult) *Kind {
	if r.Dict != nil {
		for _, c := range k.behind {
			if c.ID() == r.Dict.ID {
				return c.kind
			}
		}
	}
	return k
}

// DecodeConnect decodes the connect request of a OneWay connection.
func (k *Kind) DecodeConnect(data []byte) (*protocol.ConnectRequest, error) {
	req := new(protocol.ConnectRequest)
	return req, codec.DecodeConnect(k.Framer.Encoding(), data, req)
}

// Commands returns the commands of a protocol.EmulationRequest as one transport message, which may alias data.
func (k *Kind) Commands(data []byte) ([]byte, error) {
	if k.Framer.Encoding() == protocol.Protobuf {
		return data, nil
	}
	r := jsonwire.NewReader(data)
	if r.Null() {
		return nil, errors.New("null is no string")
	}
	var lines []byte
	r.StringBytes(&lines)
	return lines, r.End()
}

// Refusal tells conn the error of a connect request, and returns the disconnect for a OneWay client: the default, unless
// codes has another.
func Refusal(conn transport.Conn, err error, codes map[uint32]protocol.Disconnect) protocol.Disconnect {
	if d, ok := errors.AsType[protocol.Disconnect](err); ok {
		return d
	}
	if told, ok := conn.(transport.Told); ok {
		told.Refused(err)
	}
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		if d, ok := codes[e.Code]; ok {
			return d
		}
		switch e.Code {
		case protocol.ErrorTokenExpired.Code, protocol.ErrorExpired.Code:
			return protocol.DisconnectExpired
		case protocol.ErrorTooManyRequests.Code:
			return protocol.DisconnectTooManyRequests
		case protocol.ErrorPermissionDenied.Code:
			return protocol.DisconnectPermissionDenied
		}
	}
	return protocol.DisconnectServerError
}

// bare encodes pushes, connect results and pings as pushes. OneWay connections have no other replies.
type bare struct{ codec.Codec }

var ping protocol.Push

func (c bare) AppendReply(dst []byte, r *protocol.Reply) ([]byte, error) {
	switch {
	case r.Push != nil:
		return c.AppendPush(dst, r.Push)
	case r.Connect != nil:
		return c.AppendPush(dst, &protocol.Push{Connect: connectPush(r.Connect)})
	}
	return c.AppendPush(dst, &ping)
}

func connectPush(r *protocol.ConnectResult) *protocol.Connect {
	return &protocol.Connect{
		Client: r.Client, Version: r.Version, Data: r.Data, Subs: r.Subs, Expires: r.Expires, TTL: r.TTL,
		Ping: r.Ping, Pong: r.Pong, Session: r.Session, Node: r.Node, Time: r.Time,
	}
}
