package sockjs

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/wire/jsonwire"
	"github.com/gyrohq/gyro/transport"
)

func (h *Handler) upgrade(w http.ResponseWriter, r *http.Request) {
	if !h.admit(w, r) {
		return
	}
	// SockJS has nothing that a query or subprotocols could choose.
	plain := r.Clone(r.Context())
	plain.URL.RawQuery = ""
	plain.Header.Del("Sec-WebSocket-Protocol")
	h.webSocket.ServeHTTP(w, plain)
}

type webSocketAcceptor struct {
	acceptor transport.Acceptor

	mu      sync.Mutex
	framers map[transport.Framer]*arrayFramer // by the framer of the connection
}

func (a *webSocketAcceptor) Accept(ctx context.Context, c transport.Conn, info transport.Info) (transport.Peer, error) {
	f := a.framer(info.Framer)
	if _, err := c.Write([][]byte{f.plain("o")}); err != nil {
		return nil, err
	}
	conn := &webSocketConn{c, f}
	info.Name, info.Framer = name, f
	peer, err := a.acceptor.Accept(ctx, conn, info)
	if err != nil {
		return nil, err
	}
	return &webSocketPeer{peer, conn}, nil
}

func (a *webSocketAcceptor) framer(inner transport.Framer) *arrayFramer {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.framers[inner]
	if f == nil {
		if a.framers == nil {
			a.framers = make(map[transport.Framer]*arrayFramer)
		}
		f = &arrayFramer{inner}
		a.framers[inner] = f
	}
	return f
}

type webSocketConn struct {
	transport.Conn
	framer *arrayFramer
}

// Close tells the client the disconnect in a frame of SockJS, and then in one of WebSocket.
func (c *webSocketConn) Close(d protocol.Disconnect, frames [][]byte) {
	if d.Code != 0 && d.Code != protocol.DisconnectConnectionClosed.Code {
		frames = append(frames[:len(frames):len(frames)], c.framer.plain(closeFrame(d)))
	}
	c.Conn.Close(d, frames)
}

func closeFrame(d protocol.Disconnect) string {
	b, _ := json.Marshal([]any{d.Code, d.Reason}) // cannot fail
	return "c" + string(b)
}

type webSocketPeer struct {
	transport.Peer
	conn *webSocketConn
}

// Receive hands over the messages of an array. An empty message means nothing.
func (p *webSocketPeer) Receive(msg []byte) {
	if len(msg) == 0 {
		return
	}
	messages, err := decode(msg)
	if err != nil {
		p.conn.Close(protocol.DisconnectBadRequest, nil)
		return
	}
	for _, m := range messages {
		p.Peer.Receive([]byte(m))
	}
}

// decode accepts an array of strings, or one string.
func decode(data []byte) (messages []string, err error) {
	if err = json.Unmarshal(data, &messages); err != nil {
		var one string
		if json.Unmarshal(data, &one) == nil {
			return []string{one}, nil
		}
	}
	return messages, err
}

type arrayFramer struct{ transport.Framer }

// Frame implements transport.Framer.
func (f *arrayFramer) Frame(buf []byte) []byte {
	room := f.Headroom()
	out := append(make([]byte, room, room+len(buf)+len(buf)/4), "a["...)
	return f.Framer.Frame(append(jsonwire.AppendBytes(out, buf[room:]), ']'))
}

func (f *arrayFramer) plain(text string) []byte {
	return f.Framer.Frame(append(make([]byte, f.Headroom()), text...))
}

// stringFramer makes a JSON string of messages, and a comma behind it.
type stringFramer struct{}

func (stringFramer) Encoding() protocol.Encoding { return protocol.JSON }
func (stringFramer) Headroom() int               { return 0 }
func (stringFramer) Costly() bool                { return false }
func (stringFramer) Frame(buf []byte) []byte     { return append(jsonwire.AppendBytes(nil, buf), ',') }
