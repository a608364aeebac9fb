package session

import (
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
)

// Via is a kind of connection. Many sessions share one; it is constant.
type Via struct {
	// Name of the transport.
	Name   string
	Framer transport.Framer
	Codec  codec.Codec
	// NativePing: the transport pings.
	NativePing bool
}

// NewVia describes the kind of a connection.
func NewVia(info *transport.Info) *Via {
	return &Via{
		Name: info.Name, Framer: info.Framer, Codec: codec.For(info.Framer.Encoding()), NativePing: info.NativePing,
	}
}

// maxVias is how many kinds of connections are remembered. There are a few, unless
// a transport makes a framer for every connection.
const maxVias = 64

// Vias are the kinds of connections seen so far. One goroutine at a time may use them.
type Vias []*Via

// Of returns the description that connections of this kind share.
func (l *Vias) Of(info *transport.Info) *Via {
	for _, v := range *l {
		if v.Framer == info.Framer && v.Name == info.Name && v.NativePing == info.NativePing {
			return v
		}
	}
	v := NewVia(info)
	if len(*l) < maxVias {
		*l = append(*l, v)
	}
	return v
}
