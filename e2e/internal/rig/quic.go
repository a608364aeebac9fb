package rig

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// quicProxy is a Proxy for QUIC: it relays connections to the nodes of a server in turn, stream by stream. HTTP/3 and
// WebTransport pass unchanged, because streams keep their numbers; it drops datagrams, which Gyro does not use. Any
// goroutine may call its methods.
type quicProxy struct {
	listener *quic.Listener
	nodes    []*Server
	turn     atomic.Uint32
	pairs[*quicPair]
}

type quicPair struct {
	client, node *quic.Conn
	muted        atomic.Bool
}

// gone closes connections: H3_NO_ERROR.
const gone = quic.ApplicationErrorCode(http3.ErrCodeNoError)

func quicConfig() *quic.Config {
	return &quic.Config{EnableDatagrams: true, EnableStreamResetPartialDelivery: true} // WebTransport needs them
}

// newQUICProxy relays connections from a free port of 127.0.0.1 to the public ports of nodes.
func newQUICProxy(certificate tls.Certificate, nodes []*Server) (*quicProxy, error) {
	l, err := quic.ListenAddr("127.0.0.1:0", http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{certificate}}), quicConfig())
	if err != nil {
		return nil, err
	}
	p := &quicProxy{listener: l, nodes: nodes}
	go p.accept()
	return p, nil
}

func (p *quicProxy) Addr() string { return p.listener.Addr().String() }

func (p *quicProxy) Close() {
	_ = p.listener.Close() // nothing can be done about it
	p.Down()
}

func (p *quicProxy) accept() {
	for {
		c, err := p.listener.Accept(context.Background())
		if err != nil {
			return // closed
		}
		go p.relay(c)
	}
}

// next returns the next node that has not exited.
func (p *quicProxy) next() (*Server, error) {
	for range p.nodes {
		node := p.nodes[int(p.turn.Add(1)-1)%len(p.nodes)]
		select {
		case <-node.Exited():
		default:
			return node, nil
		}
	}
	return nil, net.ErrClosed
}

// relay serves a client's connection until one of the two ends, or the node exits, which QUIC itself would learn
// late.
func (p *quicProxy) relay(client *quic.Conn) {
	defer client.CloseWithError(gone, "") //nolint:errcheck // it may be closed already
	node, err := p.next()
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(client.Context())
	defer cancel()
	go func() {
		select {
		case <-node.Exited():
			cancel()
		case <-ctx.Done():
		}
	}()
	conn, err := quic.DialAddr(ctx, node.Public, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{http3.NextProtoH3}}, quicConfig())
	if err != nil {
		return
	}
	c := &quicPair{client: client, node: conn}
	defer c.close()
	if !p.add(c) {
		return
	}
	defer p.remove(c)
	go c.relayStreams(client, conn)
	go c.relayStreams(conn, client)
	go c.relayUniStreams(client, conn)
	go c.relayUniStreams(conn, client)
	select {
	case <-ctx.Done():
	case <-conn.Context().Done():
	}
	if c.muted.Load() { // a silent network does not pass on the end of a connection either
		<-client.Context().Done()
		<-conn.Context().Done()
	}
}

// cut is close, because QUIC has no other way to break a connection at once.
func (c *quicPair) cut()  { c.close() }
func (c *quicPair) mute() { c.muted.Store(true) }

func (c *quicPair) close() {
	for _, end := range []*quic.Conn{c.client, c.node} {
		_ = end.CloseWithError(gone, "") // it may be closed already
	}
}

// relayStreams relays the bidirectional streams of one side. They get their numbers in the order of their opening.
func (c *quicPair) relayStreams(from, to *quic.Conn) {
	for {
		s, err := from.AcceptStream(from.Context())
		if err != nil {
			return // closed
		}
		other, err := to.OpenStreamSync(to.Context())
		if err != nil {
			return
		}
		go c.pump(other, s)
		go c.pump(s, other)
	}
}

func (c *quicPair) relayUniStreams(from, to *quic.Conn) {
	for {
		s, err := from.AcceptUniStream(from.Context())
		if err != nil {
			return // closed
		}
		other, err := to.OpenUniStreamSync(to.Context())
		if err != nil {
			return
		}
		go c.pump(other, s)
	}
}

type sender interface {
	io.WriteCloser
	CancelWrite(code quic.StreamErrorCode)
}

type receiver interface {
	io.Reader
	CancelRead(code quic.StreamErrorCode)
}

// pump copies a stream until either side ends it, and ends it for the other side in the same way.
func (c *quicPair) pump(dst sender, src receiver) {
	buf := make([]byte, 16<<10)
	for {
		n, err := src.Read(buf)
		if c.muted.Load() {
			n = 0
		}
		if _, failed := dst.Write(buf[:n]); failed != nil {
			src.CancelRead(codeOf(failed))
			return
		}
		switch {
		case err == nil:
		case c.muted.Load():
			return
		case errors.Is(err, io.EOF):
			_ = dst.Close() // the other side has reset it then
			return
		default:
			dst.CancelWrite(codeOf(err))
			return
		}
	}
}

func codeOf(err error) quic.StreamErrorCode {
	if e, ok := errors.AsType[*quic.StreamError](err); ok {
		return e.ErrorCode
	}
	return quic.StreamErrorCode(http3.ErrCodeNoError)
}
