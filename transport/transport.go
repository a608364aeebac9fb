// Package transport is the contract between Gyro's core and the ways by which
// clients reach it. A transport owns sockets and framing; the core owns sessions.
package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/gyrohq/gyro/protocol"
)

// Mode is which way the messages of a connection go.
type Mode uint8

const (
	// Bidirectional: the client's commands come by Peer.Receive, the replies and pushes
	// go by Conn.Write.
	Bidirectional Mode = iota
	// Emulated: replies and pushes go by Conn.Write. The commands that opened the
	// connection come by Peer.Receive; all others come by requests, which may reach any
	// node, and Emulator.Emulate. They name the node and a secret session ID, which the
	// client has from its connect result.
	Emulated
	// Poll is Emulated, with replies and pushes that requests fetch: Conn.Write takes
	// bytes while there is such a request, and Peer.Writable follows when there is one
	// again. The requests show the transport whether the client lives, and Peer.Closed
	// tells the core; so the client is pinged, and need not answer.
	Poll
	// OneWay: bare pushes go by Conn.Write (protocol.Push, without the Reply around it).
	// The first one is the connect push, an empty one is a ping that has no answer. The
	// client sends nothing but its connect request, so only the server subscribes it.
	// Instead of an error the client gets a disconnect.
	OneWay
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
	// they are not kept after Close returns), tells the client the disconnect in the
	// transport's manner, and frees everything, in the background and in bounded time.
	// With protocol.DisconnectConnectionClosed the connection is just dropped. With
	// code 0 the frames end with the error that the client's connect command got, and
	// the client is given the time to close first. Calls after the first do nothing. Any
	// goroutine may call it, also while Accept is under way.
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

// Emulator takes the commands of Emulated and Poll connections. The node is one.
type Emulator interface {
	// Emulate hands the commands of a client to the node that has its connection, and
	// waits until they are dispatched, as one transport message. node and session are
	// what the client has from its connect result. data is as in
	// protocol.EmulationRequest: for JSON connections a JSON string of lines, for
	// Protobuf connections delimited messages; it must not be modified afterwards.
	//
	// That there is no such session, or that data is no JSON string, is no error: who
	// guesses learns nothing. The error wraps ErrUnknownNode if there is no such node.
	// Any other one means that the commands may not be dispatched.
	Emulate(ctx context.Context, node, session string, data []byte) error
}

// ErrUnknownNode tells that a node is not in the cluster.
var ErrUnknownNode = errors.New("no such node in the cluster")

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
	// Mode of the connection.
	Mode Mode
	// Connect is the connect request of a OneWay connection, which then connects at
	// once. If it is nil, the first message received is the request, as
	// codec.DecodeConnect reads it. All that is received later is ignored. Connections
	// of other modes send a connect command.
	Connect *protocol.ConnectRequest
	// DisconnectPush has the frames of Conn.Close end with a disconnect push: for
	// transports whose own close tells no code. There is none with
	// protocol.DisconnectConnectionClosed and protocol.DisconnectSlow, whose queue is
	// discarded, nor with code 0.
	DisconnectPush bool
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
