package connections

import (
	"context"
	"net"
	"net/http"
	"testing"
)

// inMemory has s serve connections in memory, so that it works in virtual time, over HTTP/1.1 or HTTP/2. It returns
// a client for any address that begins with http.
func inMemory(t *testing.T, s *http.Server, h2 bool) *http.Client {
	l := listener{make(chan net.Conn), make(chan struct{})}
	var p http.Protocols
	p.SetHTTP1(!h2)
	p.SetUnencryptedHTTP2(h2)
	s.Protocols = &p
	transport := &http.Transport{Protocols: &p, DialContext: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		l.conns <- theirs
		return ours, nil
	}}
	go s.Serve(l)
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.Close()
	})
	return &http.Client{Transport: transport}
}

// listener has the connections of inMemory.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l listener) Close() error {
	close(l.closed)
	return nil
}

func (listener) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }
