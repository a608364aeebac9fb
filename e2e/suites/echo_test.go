// Package suites runs public suites: Autobahn for WebSocket, h2spec for HTTP/2, and JSON parsing test data.
package suites

import (
	"context"

	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/transport"
)

// echo sends each message back: as text, or as bytes if the client chose Protobuf.
type echo struct{}

func (echo) Accept(_ context.Context, c transport.Conn, info transport.Info) (transport.Peer, error) {
	return &peer{conn: c, framer: info.Framer}, nil
}

type looping struct {
	echo
	loop *loop.Loop
}

func (l looping) NextLoop() transport.Loop { return l.loop.Sockets() }

func (l looping) AcceptOn(_ transport.Loop, ctx context.Context, c transport.Conn, info transport.Info) (transport.Peer, error) {
	return l.Accept(ctx, c, info)
}

type peer struct {
	conn   transport.Conn
	framer transport.Framer
	queue  [][]byte
}

func (p *peer) Receive(msg []byte) {
	p.queue = append(p.queue, p.framer.Frame(append(make([]byte, p.framer.Headroom()), msg...)))
	p.Writable()
}

func (p *peer) Writable() {
	n, err := p.conn.Write(p.queue)
	if err != nil {
		p.queue = nil
		return
	}
	for len(p.queue) > 0 && n >= len(p.queue[0]) {
		n -= len(p.queue[0])
		p.queue = p.queue[1:]
	}
	if n > 0 {
		p.queue[0] = p.queue[0][n:]
	}
}

func (p *peer) Closed(error) {}
