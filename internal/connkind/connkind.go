// Package connkind describes the kinds of connections that clients have.
package connkind

import (
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
)

// Kind of connection: constant, and shared by sessions.
type Kind struct {
	Name string
	// Framer is shared by all kinds with the same framer and name.
	Framer *Framer
	// Codec of the session. The codec of OneWay connections encodes replies as bare pushes.
	Codec codec.Codec
	Form  hub.Form
	// As in transport.Info, like Bookmarks, Brief and HTTP.
	NativePing     bool
	Mode           transport.Mode
	DisconnectPush bool
	Bookmarks      int
	Brief          bool
	HTTP           uint8

	// behind are the kinds of connections behind their connect result.
	behind []compressed
}

type compressed struct {
	transport.Dictionary
	kind *Kind
}

// Framer is a framer of one transport. Each transport has its own, so the hub makes frames, and counts messages, for
// each.
type Framer struct {
	transport.Framer
	Transport string
}

// New returns the kind of the connection that info describes.
func New(info *transport.Info) *Kind {
	k := &Kind{
		Name: info.Name, Framer: &Framer{info.Framer, info.Name}, Codec: codec.For(info.Framer.Encoding()),
		NativePing: info.NativePing, Mode: info.Mode, DisconnectPush: info.DisconnectPush,
		Bookmarks: info.Bookmarks, Brief: info.Brief, HTTP: info.HTTP,
	}
	if k.Mode == transport.OneWay {
		k.Codec, k.Form = bare{k.Codec}, hub.Bare
	}
	if c, ok := info.Framer.(transport.Compressing); ok && k.Mode == transport.Bidirectional {
		for _, d := range c.Dictionaries() {
			next := *k
			next.Framer, next.behind = &Framer{d.Framer(), info.Name}, nil
			k.behind = append(k.behind, compressed{d, &next})
		}
	}
	return k
}

// maxKinds bounds Kinds, in case a transport makes a framer for every connection.
const maxKinds = 64

// Kinds are the kinds of a node's connections. One goroutine at a time may use them.
type Kinds []*Kind

func (l *Kinds) Of(info *transport.Info) *Kind {
	for _, v := range *l {
		if v.Framer.Framer == info.Framer && v.Name == info.Name &&
			v.NativePing == info.NativePing && v.Mode == info.Mode && v.DisconnectPush == info.DisconnectPush &&
			v.Bookmarks == info.Bookmarks && v.Brief == info.Brief && v.HTTP == info.HTTP {
			return v
		}
	}
	v := New(info)
	l.share(v)
	for _, c := range v.behind {
		l.share(c.kind)
	}
	if len(*l) < maxKinds {
		*l = append(*l, v)
	}
	return v
}

func (l *Kinds) share(k *Kind) {
	for _, v := range *l {
		if *v.Framer == *k.Framer {
			k.Framer = v.Framer
		}
		for _, c := range v.behind {
			if *c.kind.Framer == *k.Framer {
				k.Framer = c.kind.Framer
			}
		}
	}
}

// Nowhere is the transport.Conn of a client that has gone.
type Nowhere struct{}

// Write drops all bytes.
func (Nowhere) Write(frames [][]byte) (n int, err error) {
	for _, f := range frames {
		n += len(f)
	}
	return n, nil
}

// Close does nothing.
func (Nowhere) Close(protocol.Disconnect, [][]byte) {}

// Pause does nothing.
func (Nowhere) Pause(bool) {}
