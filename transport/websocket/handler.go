// Package websocket is the WebSocket transport: RFC 6455 over HTTP/1.1, RFC 8441 over HTTP/2, and compression by RFC
// 7692.
package websocket

import (
	"context"
	"net/http"
	"time"

	"github.com/gyrohq/gyro/internal/nodeaccess"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/internal/driver"
	"github.com/gyrohq/gyro/transport/internal/netio"
	"github.com/gyrohq/gyro/transport/internal/refuse"
	"github.com/gyrohq/gyro/transport/websocket/internal/endpoint"
	"github.com/gyrohq/gyro/transport/websocket/internal/rfc6455"
)

// Config of a Handler. The zero value is ready to use.
type Config struct {
	// MessageSizeLimit is the most bytes of a client's message on the wire. Above it the connection ends with close code
	// 1009. Default: 65536.
	MessageSizeLimit int
	// DecompressedMessageSizeLimit is the same after decompression. Default: 10 times MessageSizeLimit.
	DecompressedMessageSizeLimit int
	// WriteTimeout is how long the client may block one write before the connection
	// ends with protocol.DisconnectWriteError. Default: 1 s.
	WriteTimeout time.Duration
	// Compression enables permessage-deflate for clients that offer it.
	Compression bool
	// CompressionMinSize is the least size of messages that are compressed, in bytes. Messages that do not shrink are
	// sent uncompressed. Default: 0.
	CompressionMinSize int
	// CompressionLevel is 1 (fastest) to 9 (smallest). A value outside becomes the
	// nearest one. Default: 1.
	CompressionLevel int
	// Dictionaries that clients may use if they offer it; a client gets the first one that is for it. The messages after
	// its connect result are compressed against it, instead of permessage-deflate. One-way connections use none.
	Dictionaries []*Dictionary
	// CheckOrigin reports whether a request may open a connection; if not, it gets 403. Loops and any goroutines call it
	// concurrently; it must not block. Default: the host of the Origin field is the request's host, in any letter case,
	// or there is no Origin.
	CheckOrigin func(q *front.Request) bool
	// PingInterval is the time between the native pings of OneWay connections, and of others that asked for them (query
	// cf_ws_frame_ping_pong=true). PongTimeout is the time to answer one, before protocol.DisconnectNoPong. Defaults: 25
	// s, 10 s.
	PingInterval, PongTimeout time.Duration
	// HandshakeTimeout bounds the writing of the answer to the handshake (http.Server bounds the reading). Default: 5 s.
	HandshakeTimeout time.Duration
	// CloseTimeout is how long the server waits for the client's Close frame, or for the end of a refused client.
	// Default: 5 s.
	CloseTimeout time.Duration
	// OneWay, if set, makes the connections one-way (transport.OneWay), in JSON. The connect request is the query
	// parameter cf_connect or the first message. Default: clients send commands.
	OneWay *OneWay
}

// OneWay has the options of one-way connections.
type OneWay struct {
	// NoDisconnectPush: only the Close frame tells clients why they must go, and no push before it.
	NoDisconnectPush bool
	// NoClosingHandshake: a connection that the server ends has no Close frame, unless the client breaks the rules.
	NoClosingHandshake bool
	// JoinPushes allows several pushes in a message, separated by line breaks.
	JoinPushes bool
}

func (c Config) withDefaults() Config {
	setDefault(&c.MessageSizeLimit, 64<<10)
	setDefault(&c.DecompressedMessageSizeLimit, 10*c.MessageSizeLimit)
	setDefault(&c.WriteTimeout, time.Second)
	c.CompressionLevel = min(max(c.CompressionLevel, 1), 9)
	setDefault(&c.PingInterval, 25*time.Second)
	setDefault(&c.PongTimeout, 10*time.Second)
	setDefault(&c.HandshakeTimeout, 5*time.Second)
	setDefault(&c.CloseTimeout, 5*time.Second)
	if c.CheckOrigin == nil {
		c.CheckOrigin = refuse.SameOrigin
	}
	return c
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// Handler upgrades requests to WebSocket connections and hands them to an acceptor. It is safe for concurrent use and
// fits any router.
//
// Over HTTP/1.1 the handler takes the connection from the server and returns. http.Server.Shutdown does not wait for
// such connections; shutting down the node does. Over HTTP/2 it returns when the connection has ended. net/http
// offers WebSocket over HTTP/2 only if the environment of the process had GODEBUG=http2xconnect=1 at its start.
//
// TCP and Unix sockets are used without blocking where the system allows it. A listener that wraps its connections,
// as the one of package netutil does, prevents this: limit the number of connections in another way. A wrapper that
// is needed for a while only can have a method Bare() net.Conn, which the handler calls once it has the connection:
// Bare returns the inner connection, which is used in its place, or nil if the wrapper is still needed.
type Handler struct {
	acceptor transport.Acceptor
	cfg      Config
	endpoint endpoint.Config
	framers  [2][2]*framer  // by encoding and compression
	info     transport.Info // the common part of all connections
	refuser  refuse.Refuser
}

// NewHandler returns a handler whose connections go to acceptor, with a context that has the values of the request's and
// is never done.
func NewHandler(acceptor transport.Acceptor, cfg Config) *Handler {
	cfg = cfg.withDefaults()
	refuser := refuse.Refuser{Acceptor: acceptor, Kind: "WebSocket handshake refused", Prefix: "websocket: ", Allow: http.MethodGet}
	h := &Handler{acceptor: acceptor, cfg: cfg, refuser: refuser, info: transport.Info{Name: "websocket"}, endpoint: endpoint.Config{
		MessageSizeLimit: cfg.MessageSizeLimit, InflatedSizeLimit: cfg.DecompressedMessageSizeLimit,
		PingInterval: cfg.PingInterval, PongTimeout: cfg.PongTimeout,
		Timeouts: transport.Timeouts{Write: cfg.WriteTimeout, Await: cfg.CloseTimeout, Close: cfg.CloseTimeout},
		Totals:   nodeaccess.Totals(acceptor),
	}}
	join := true
	if one := cfg.OneWay; one != nil {
		join = one.JoinPushes
		h.info = transport.Info{Name: "uni_websocket", Mode: transport.OneWay, DisconnectPush: !one.NoDisconnectPush}
		h.endpoint.NoClosingHandshake, h.endpoint.CutSilent = one.NoClosingHandshake, true
	}
	h.endpoint.Transport = h.info.Name
	d := rfc6455.NewDeflater(h.cfg.CompressionLevel, h.cfg.CompressionMinSize)
	for _, e := range []protocol.Encoding{protocol.JSON, protocol.Protobuf} {
		h.framers[e] = [2]*framer{newFramer(e, nil, join), newFramer(e, d, join)}
	}
	for _, d := range cfg.Dictionaries {
		for _, f := range h.framers[d.framer.encoding] {
			f.dictionaries = append(f.dictionaries, d)
		}
	}
	return h
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := front.FromHTTP(r)
	hs, refused := h.negotiate(r, q)
	var stream netio.Stream
	var early []byte
	switch {
	case refused != nil:
	case r.ProtoMajor == 2:
		stream, refused = hs.acceptStream(w, r)
	default:
		stream, early, refused = hs.hijack(w, h.cfg.HandshakeTimeout)
	}
	if refused != nil {
		refuse.HangUp(w, r, 0)
		w.Header().Set("Sec-WebSocket-Version", "13")
		h.refuser.Refuse(w, q, refused)
	}
	if stream == nil {
		return
	}
	candidate := h.candidate(context.WithoutCancel(r.Context()), &hs, q)
	if r.ProtoMajor == 2 {
		driver.NewStreamConn(stream, h.newEndpoint(&hs)).Serve(h.acceptor, candidate, false)
		return
	}
	candidate.Early = early
	driver.Serve(h.acceptor, stream, h.newEndpoint(&hs), candidate)
}

func (h *Handler) newEndpoint(hs *handshake) endpoint.Endpoint {
	return endpoint.New(&h.endpoint, hs.compress, hs.nativePing)
}

func (h *Handler) candidate(ctx context.Context, hs *handshake, q *front.Request) driver.Candidate {
	compressed := 0
	if hs.compress {
		compressed = 1
	}
	info := h.info
	info.Framer, info.Header, info.RemoteAddr = h.framers[hs.encoding][compressed], q.Header(), q.RemoteAddr
	info.HTTP, info.Connect = q.HTTP, hs.connect
	// One-way clients are pinged in both ways: pushes are no proof that they live.
	info.NativePing = hs.nativePing && info.Mode != transport.OneWay
	return driver.Candidate{Ctx: ctx, Info: info}
}
