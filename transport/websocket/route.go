package websocket

import (
	"net/http"

	"github.com/gyrohq/gyro/internal/onloop"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// Route returns the way of clients to h that keeps them away from net/http: the loops of
// h's acceptor read and answer the usual handshakes for path, and no goroutine and no
// buffer is ever made for them. All others are net/http's, and refused there if need be,
// so h has to serve the path as well. Middleware does not see the requests of the route;
// its Gate does.
func (h *Handler) Route(path string) front.Route {
	return front.Route{Method: http.MethodGet, Path: path, Upgrade: "websocket", Take: h.take}
}

// take takes the connection of a handshake that succeeds.
func (h *Handler) take(a *front.Arrival) {
	loops := onloop.Of(h.acceptor)
	hs, refused := h.agree(a.Request)
	if loops == nil || refused != nil {
		return // the usual way is to tell the client
	}
	b := netio.Get(maxAnswer)
	b.B = hs.appendAnswer(b.B)
	taken := a.Take(http.StatusSwitchingProtocols, b.B)
	b.Free()
	if !taken {
		return
	}
	candidate := h.candidate(a.Ctx, &hs, a.Request)
	candidate.Early, candidate.Watched = a.Early, true
	h.loopConn(a.Loop, a.FD, &hs).Start(loops, candidate)
}
