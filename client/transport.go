package client

import (
	"context"

	"github.com/gyrohq/gyro/client/internal/endpoint"
	"github.com/gyrohq/gyro/internal/wsclient"
	"github.com/gyrohq/gyro/protocol"
)

// Transport is a way to connect: WebSocket, or one of the packages httplink and transport/webtransport/wtlink. It
// returns a Dialer for one client with these options, or names the fault in them; the error wraps errors.ErrUnsupported
// if it cannot carry their Encoding.
type Transport func(o *Options) (Dialer, error)

// Dialer opens the connections of one client, one at a time.
type Dialer struct {
	// Name of the transport, for ConnectedEvent.
	Name func() string
	// Dial opens a connection. ctx is for the attempt alone.
	Dial func(ctx context.Context) (Conn, error)
	// Worked is called when the server has sent something on a connection, Failed when a connection could not be opened,
	// or ended before that. If Failed returns true, the client dials again at once. Both must not call the client, and
	// may be nil.
	Worked func()
	Failed func() bool
}

// Conn carries frames, each of one message or several. One goroutine calls Read, once; any may call the other methods.
type Conn interface {
	// Write sends a frame, and does not keep it. If it fails, Read ends.
	Write(frame []byte) error
	// Read calls handle, which must not keep the frame, until the connection ends. It returns the reason, or the error
	// of handle.
	Read(handle func(frame []byte) error) error
	// Close ends the connection and tells the server why, if the transport can. It waits for no answer.
	Close(code uint16, reason string)
	// Cut ends the connection at once.
	Cut()
}

// WebSocket is the transport of an endpoint, a URL such as wss://example.com/connection/websocket.
func WebSocket(url string) Transport {
	return func(o *Options) (Dialer, error) {
		u, err := endpoint.Parse(url)
		if err != nil {
			return Dialer{}, err
		}
		d := &wsclient.Dialer{
			URL: u.String(), Header: o.Header, Limit: o.MessageLimit, Transport: endpoint.Transport(endpoint.WebSocket, o.TLS, o.DialContext),
		}
		if o.Encoding == protocol.Protobuf {
			d.Protocol, d.Binary = "centrifuge-protobuf", true
		}
		return Dialer{Name: func() string { return "websocket" }, Dial: func(ctx context.Context) (Conn, error) {
			c, err := d.Dial(ctx)
			if err != nil {
				return nil, err // and no interface with a nil pointer
			}
			return c, nil
		}}, nil
	}
}
