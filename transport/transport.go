// Package transport is the contract between Gyro's core and the transports of its clients. A transport owns sockets and
// framing; the core owns sessions. Package driver does the I/O of a transport that is an Endpoint, package transporttest
// tests it, and docs/transport-of-your-own.md explains how to write one.
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
	// Bidirectional: commands come by Peer.Receive, replies and pushes go by Conn.Write.
	Bidirectional Mode = iota
	// Emulated: replies and pushes go by Conn.Write. The first commands come by Peer.Receive. Further ones come in
	// requests, which may reach any node, and by Emulator.Emulate. These name the node and a secret session ID, which
	// the client has from its connect result.
	Emulated
	// Poll is Emulated with requests that fetch replies and pushes: Conn.Write takes bytes while there is such a
	// request, and Peer.Writable is called when the next one comes. These requests show that the client lives; if it
	// does not, the transport calls Peer.Closed. So the client is pinged, and need not answer.
	Poll
	// OneWay: bare pushes go by Conn.Write (protocol.Push, without the Reply around it). The first one is the connect
	// push, an empty one is a ping, which is not answered. The client sends its connect request only. Instead of an
	// error it gets a disconnect.
	OneWay
)

// Conn is one client connection as its transport sees it.
type Conn interface {
	// Write takes as many bytes of frames, in order, as the client accepts now, and returns their number. An element of
	// frames may hold several frames of the Framer. Write never blocks. If it takes less than all bytes, the transport
	// calls Peer.Writable once it can take more. Other connections share the bytes: Write must neither modify nor keep
	// them. An error means that the connection is lost; Peer.Closed follows.
	//
	// Only the owner of the peer calls it, one call at a time, the first perhaps while Accept is under way.
	Write(frames [][]byte) (n int, err error)

	// Close ends the connection in the background and in bounded time: it sends frames, the rest of the queue, then
	// tells the client the disconnect in the transport's own manner, and frees everything. It does not keep frames,
	// which have at most gyro.Config.QueueMaxSize bytes and a disconnect push. With protocol.DisconnectConnectionClosed
	// the client is told nothing. With code 0 the frames end with the error for the connect command, and the client gets
	// time to close first. Calls after the first do nothing. Any goroutine may call Close, also while Accept is under
	// way.
	Close(d protocol.Disconnect, frames [][]byte)

	// Pause stops (true) or resumes (false) reading. A message that was read already may still come during a pause.
	Pause(bool)
}

// Told is a Conn of a OneWay client that wants to know why connecting failed: a disconnect tells less.
type Told interface {
	Conn
	// Refused is called before Close if the connect request ended with an error other than a protocol.Disconnect.
	Refused(err error)
}

// Peer is the core's end of a connection. One goroutine at a time calls its methods, which never block on I/O.
type Peer interface {
	// Receive hands over a message of one or more commands. msg is valid during the call only.
	Receive(msg []byte)
	// Writable tells that Conn.Write takes bytes again.
	Writable()
	// Closed tells that the connection has ended. It is the last call, made exactly once, also after Conn.Close. The
	// program and operators see the protocol.Disconnect that err wraps. A *refusal.Reason says that the client sent
	// something that the transport does not take: it also makes a line of the log, and without a Disconnect the program
	// and operators see its text.
	Closed(err error)
}

// Panic is the error for Peer.Closed after a panic on the connection's goroutine.
type Panic struct {
	// Reason is the result of recover.
	Reason any
	Stack  []byte
}

// Error implements error.
func (p *Panic) Error() string { return fmt.Sprint("panic: ", p.Reason) }

// Acceptor turns connections into peers. The node is one.
type Acceptor interface {
	// Accept takes over a new connection. ctx is the context of the request that opened it, with the values of HTTP
	// middleware, and is used until the client has connected. An error means that the node takes no connections (it is
	// shutting down): the transport refuses the client with the protocol.Disconnect that errors.As finds in it.
	Accept(ctx context.Context, c Conn, info Info) (Peer, error)
}

// Emulator takes the commands of Emulated and Poll connections. The node is one.
type Emulator interface {
	// Emulate hands the commands of a client to the node that has its connection, as one transport message, and waits
	// until they are dispatched. node and session are from the client's connect result. data is as in
	// protocol.EmulationRequest: for JSON connections a JSON string of lines, for Protobuf connections delimited
	// messages; it must not be modified afterwards.
	//
	// A session that does not exist, and data that is no JSON string, are no errors: guessing does not reveal session
	// IDs. The error wraps ErrUnknownNode if there is no such node. After any other error the commands may or may not
	// have been dispatched.
	Emulate(ctx context.Context, node, session string, data []byte) error
}

// ErrUnknownNode tells that a node is not in the cluster.
var ErrUnknownNode = errors.New("no such node in the cluster")

// Info describes a connection to the core. It does not change.
type Info struct {
	// Name of the transport in metrics and proxies: "websocket", "sse", ….
	Name string
	// Framer also fixes the encoding.
	Framer Framer
	// Header makes the header of the request that opened the connection. Nil: there was no request.
	Header func() http.Header
	// RemoteAddr of the peer, as in http.Request.
	RemoteAddr string
	// HTTP is the major version of HTTP in that request; 0: there was none.
	HTTP uint8
	// NativePing tells that the transport itself pings the client. The protocol's own pings are off then.
	NativePing bool
	Mode       Mode
	// Connect is the connect request of a OneWay connection, which connects at once then. If it is nil, the first
	// message is the request, as codec.DecodeConnect reads it. All later ones are ignored. Connections of other modes
	// send a connect command.
	Connect *protocol.ConnectRequest
	// Repeated reports whether the client names a channel in Connect.Subs only because the server has given it a
	// position there. Nil: it chose all of them for this connection. It is called until the client has connected.
	Repeated func(channel string) bool
	// DisconnectPush makes the frames of Conn.Close end with a disconnect push, for transports that cannot tell a code
	// when they close. There is none with code 0, protocol.DisconnectConnectionClosed and protocol.DisconnectSlow, which
	// discard the queue.
	DisconnectPush bool
	// Bookmarks is the most bytes of a bookmark (package bookmark), for OneWay connections with JSON; 0: there are none.
	// The Framer gets a line with a bookmark of all recoverable channels after each message that moves a position; none
	// if it would be larger. If the last line is empty, the next frame begins with the bookmark of the message before.
	Bookmarks int
	// Brief connections come one after the other, all of one client. So they are in no channel's presence, and make no
	// joins and leaves.
	Brief bool
}

// Framer puts a transport's envelope around encoded messages. Connections with an equal Framer (==) and Info.Name get
// the very same bytes, made once per publication, so implementations are pointers that many connections share.
type Framer interface {
	Encoding() protocol.Encoding
	// Headroom is how many bytes Frame may need before the message.
	Headroom() int
	// Costly tells that Frame takes long, for example to compress, so that loops share its results. Otherwise each loop
	// makes its own frame, which is faster.
	Costly() bool
	// Frame puts the envelope around buf[Headroom():], encoded messages (in JSON separated by line breaks, in Protobuf
	// with length prefixes). It may use buf's headroom and spare capacity, and may return another slice. Any goroutine
	// may call it.
	Frame(buf []byte) []byte
}

// Compressing is a Framer whose Bidirectional connections may use a dictionary.
type Compressing interface {
	Framer
	// Dictionaries do not change.
	Dictionaries() []Dictionary
}

// Dictionary is a text that frames are compressed against. Any goroutine may call its methods.
type Dictionary interface {
	ID() string
	// Framer of the connections that use the dictionary, after their connect result, in the encoding of the Compressing
	// framer.
	Framer() Framer
	// Offer returns the dictionary for the connect result of a client that has offered to use one; nil: it is not for
	// this client. user is empty for an anonymous client.
	Offer(req *protocol.ConnectRequest, user string) *protocol.Dictionary
}
