package nodetest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodeaccess"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/httpstream"
	"github.com/gyrohq/gyro/transport/websocket"
)

// Serve offers the node at a WebSocket address.
func Serve(tb testing.TB, node *gyro.Node, wrap func(http.Handler) http.Handler) string {
	tb.Helper()
	var h http.Handler = websocket.NewHandler(node, websocket.Config{})
	if wrap != nil {
		h = wrap(h)
	}
	s := httptest.NewServer(h)
	tb.Cleanup(s.Close)
	return s.URL
}

// StreamServer serves a kind of streams at "/", over HTTP/1.1 by loops, or over HTTP/2.
func StreamServer(tb testing.TB, node *gyro.Node, k httpstream.Kind, cfg httpstream.Config, h2 bool) *httptest.Server {
	h := httpstream.NewHandler(k, node, cfg)
	s := httptest.NewUnstartedServer(h)
	if h2 {
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Listener = front.Listen(s.Listener, s.Config, node, h.Routes("/")...)
		s.Start()
	}
	tb.Cleanup(s.Close)
	return s
}

// OnLoops has a node accept connections on its loops, if there are loops.
func OnLoops(node *gyro.Node) transport.Acceptor {
	if nodeaccess.Of(node).NextLoop() == nil {
		return node
	}
	return viaLoop{node}
}

type viaLoop struct{ *gyro.Node }

func (o viaLoop) Accept(ctx context.Context, c transport.Conn, info transport.Info) (p transport.Peer, err error) {
	loops := nodeaccess.Of(o.Node)
	l, done := loops.NextLoop(), make(chan struct{})
	l.Post(func() {
		p, err = loops.AcceptOn(l, ctx, c, info)
		close(done)
	})
	<-done
	return posting{l, p}, err
}

type posting struct {
	l transport.Loop
	transport.Peer
}

func (p posting) Receive(msg []byte) { p.l.Post(func() { p.Peer.Receive(msg) }) }
func (p posting) Closed(err error)   { p.l.Post(func() { p.Peer.Closed(err) }) }
