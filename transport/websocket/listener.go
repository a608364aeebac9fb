package websocket

import (
	"net"
	"net/http"

	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/driver"
	"github.com/gyrohq/gyro/transport/internal/netio"
	"github.com/gyrohq/gyro/transport/internal/upgrade"
)

// NewListener returns a listener for s.Serve that keeps WebSocket clients away from
// net/http: their handshakes are read and answered by the loops of h's acceptor,
// and no goroutine and no buffer is ever made for them. All other connections, to
// the last byte, come out of Accept.
//
// The handshakes meant are requests of HTTP/1.1 for one of paths, which are compared
// literally, with "GET" and "Upgrade: websocket", that are valid and have no body.
// s.Handler serves them on a loop: it must not block, and must pass them on to h.
// Its ResponseWriter offers nothing but what http.ResponseWriter has. When it
// answers anything but 101, net/http goes on with the connection. Config.Direct of h
// can spare it the usual ones.
//
// ReadHeaderTimeout (else ReadTimeout), MaxHeaderBytes, BaseContext and ErrorLog of s
// hold for those handshakes too; ConnContext and ConnState are not called. The
// value of http.LocalAddrContextKey is the address of ln. s must not be changed
// any more. Closing the listener closes ln and the connections whose first request
// is not complete.
//
// The listener is ln itself if h's acceptor has no loops, or ln is not a
// *net.TCPListener or the system lacks what is needed. While NextLoop of the
// acceptor is nil, all connections come out of Accept.
func NewListener(ln net.Listener, s *http.Server, h *Handler, paths ...string) net.Listener {
	loops, ok := h.acceptor.(transport.LoopAcceptor)
	tcp, isTCP := ln.(*net.TCPListener)
	if !ok || !isTCP {
		return ln
	}
	cfg := upgrade.Config{Server: s, Next: loops.NextLoop, Protocol: "websocket", Paths: paths, Owner: h}
	if h.cfg.Direct != nil {
		cfg.Direct = h.direct
	}
	l, err := upgrade.New(tcp, cfg)
	if err != nil {
		return ln
	}
	return l
}

// take takes the connection of a handshake that a loop has read.
func (h *Handler) take(res *upgrade.Response, w http.ResponseWriter, r *http.Request, hs handshake) {
	hs.setHeader(w.Header())
	w.WriteHeader(http.StatusSwitchingProtocols)
	candidate := h.candidate(r, &hs, nil)
	candidate.Watched = true
	res.Take(hs.answer(w.Header()), func(l transport.Loop, fd uintptr, early []byte) {
		candidate.Early = early
		h.loopConn(l, fd, &hs).Start(h.acceptor.(transport.LoopAcceptor), candidate)
	})
}

// direct takes the connection of a handshake that a loop has read, provided that it
// succeeds and nobody else needs to see it.
func (h *Handler) direct(a *upgrade.Arrival) {
	var hs handshake
	if hs.confirm(a) != nil || checkVersion(a) != nil || hs.choose(&h.cfg, a, a.Query) != nil || !h.cfg.Direct(a.Get("Origin")) {
		return // the usual way is to tell the client
	}
	b := netio.Get(maxAnswer)
	b.B = hs.appendAnswer(b.B)
	taken := a.Take(b.B)
	b.Free()
	if !taken {
		return
	}
	h.loopConn(a.Loop, a.FD, &hs).Start(h.acceptor.(transport.LoopAcceptor), driver.Candidate{
		Ctx: a.Ctx, Early: a.Early, Watched: true, Info: h.info(&hs, a.Header(), a.Remote.String()),
	})
}
