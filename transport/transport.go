// Package transport is the contract between Gyro's core and the ways by which
// clients reach it. A transport owns sockets and framing; the core owns sessions.
package transport

import (
	"context"
	"fmt"
	"net/http"

	"github.com/gyrohq/gyro/protocol"
)

// Conn is one client connection as its transport sees it.
type Conn interface {
	// Write takes as many bytes of frames, in order, as the peer accepts now (each
	// element may hold several frames of the Framer, one behind the other) and
	// returns their number; it never blocks. When it took less than all, the
	// transport calls Peer.Writable once it can take more. The bytes are shared
	// with other connections: they are not modified, and not kept after Write
	// returns. An error means that the connection is lost; Peer.Closed follows.
	//
	// Only the owner of the peer calls it, one call at a time.
	Write(frames [][]byte) (n int, err error)

	// Close ends the connection: it sends frames (the rest of the queue; as with Write
	// they are not kept after Close returns), tells the client the disconnect in the transport's
	// manner, and frees everything, in the background and in bounded time. With
	// protocol.DisconnectConnectionClosed the connection is just dropped. Calls
	// after the first do nothing. Any goroutine may call it.
	Close(d protocol.Disconnect, frames [][]byte)

	// Pause stops (true) or resumes (false) reading. A message that is already
	// under way may still be received after a pause.
	Pause(bool)
}

// Peer is the core's end of a connection: what a transport drives. Its methods
// are called from one goroutine at a time and never block on I/O.
type Peer interface {
	// Receive hands over one transport message (one or more commands). msg is
	// valid only during the call.
	Receive(msg []byte)
	// Writable tells that Write takes bytes again after it took less than all.
	Writable()
	// Closed tells that the connection is gone; it is the last call, made exactly
	// once, also after Conn.Close.
	Closed(err error)
}

// Panic is why a connection ended on whose goroutine something panicked: Peer.Closed
// gets it.
type Panic struct {
	// Reason is what recover returned.
	Reason any
	Stack  []byte
}

// Error implements error.
func (p *Panic) Error() string { return fmt.Sprint("panic: ", p.Reason) }

// Acceptor turns connections into peers. The node is one.
type Acceptor interface {
	// Accept takes over a new connection. ctx is the context of the request that
	// opened it, with whatever HTTP middleware put there; it is used until the
	// client has connected. An error means that the node takes no connection now
	// (it is shutting down): the transport refuses the client with the
	// protocol.Disconnect that errors.As finds in it.
	Accept(ctx context.Context, c Conn, info Info) (Peer, error)
}

// Info describes a connection to the core. It is constant for its lifetime.
type Info struct {
	// Name of the transport as metrics and proxies show it: "websocket", "sse", ….
	Name string
	// Framer of the connection; it also fixes the encoding.
	Framer Framer
	// Header returns the header of the request that opened the connection: making it
	// is left until somebody asks. Nil if there was none.
	Header func() http.Header
	// RemoteAddr of the peer, as in http.Request.
	RemoteAddr string
	// NativePing is set if the transport itself pings the client, so that the
	// protocol's own pings are off for this connection.
	NativePing bool
}

// Framer puts a transport's envelope around encoded messages. Connections that
// use an equal Framer (==) get the very same bytes, made once per publication,
// so implementations are pointers shared by as many connections as possible.
type Framer interface {
	// Encoding of the messages.
	Encoding() protocol.Encoding
	// Headroom is the number of bytes that Frame may need before the message.
	Headroom() int
	// Costly tells that Frame takes so long, for compression say, that loops share
	// its result. Otherwise each makes its own, which is faster for them.
	Costly() bool
	// Frame envelops buf[Headroom():], which holds encoded messages (in JSON with line
	// breaks between, in Protobuf behind their length prefixes), and returns the finished frame. It may
	// use buf's headroom and spare capacity, and return another slice. Any
	// goroutine may call it.
	Frame(buf []byte) []byte
}
