package talk

import (
	"context"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/wire"
)

// Link is a connection of a transport that package wire does not have, such as a client.Conn.
type Link interface {
	Write(frame []byte) error
	Read(handle func(frame []byte) error) error
	Cut()
}

// Dialer opens connections of package wire, or of another transport.
type Dialer struct {
	*wire.Dialer
	// Over opens a connection of another transport; nil: there is none. Pushed: it ends with a disconnect push.
	Over   func(ctx context.Context) (Link, error)
	Pushed bool
}

func (d *Dialer) pushed() bool { return d.Pushed || d.Kind.Emulated() || d.Kind.OneWay }

func (d *Dialer) linesEnd() bool { return d.Kind.Emulated() || d.Kind.Name == "uni_http_stream" }

type carrier interface {
	SendFrame(frame []byte) error
	Address(node, session string)
	Serve(handle func(frame []byte) error) error
	Cut()
}

func (d *Dialer) open(ctx context.Context, first []byte) (carrier, error) {
	if d.Over != nil {
		l, err := d.Over(ctx)
		if err != nil {
			return nil, err
		}
		if first != nil {
			_ = l.Write(first) // if the connection has ended, Read says so
		}
		return linked{l}, nil
	}
	dial := d.Dialer.Dial
	if first != nil {
		dial = func(ctx context.Context, _ ...*protocol.Command) (*wire.Conn, error) { return d.DialFrame(ctx, first) }
	}
	c, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	c.Expect(0)
	return c, nil
}

type linked struct{ Link }

func (l linked) SendFrame(frame []byte) error          { return l.Write(frame) }
func (linked) Address(string, string)                  {}
func (l linked) Serve(handle func([]byte) error) error { return l.Read(handle) }

// decode reads a message: of one-way connections a bare push.
func (c *Conn) decode(frame []byte, r *protocol.Reply) ([]byte, error) {
	if !c.dialer.Kind.OneWay {
		return c.codec.DecodeReply(frame, r)
	}
	p := new(protocol.Push)
	rest, err := c.codec.DecodePush(frame, p)
	if *p != (protocol.Push{}) { // else it is a ping
		r.Push = p
	}
	return rest, err
}
