package websocket

import (
	"net/http"

	"github.com/gyrohq/gyro/internal/nodeaccess"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/internal/driver"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// Route returns a route that reaches h without net/http: the loops of h's acceptor read and answer usual handshakes,
// without a goroutine and a buffer. All other requests go to net/http, so h must serve the path there as well.
// Middleware does not see the requests of the route; its Gate does.
func (h *Handler) Route(path string) front.Route {
	return front.Route{Method: http.MethodGet, Path: path, Upgrade: "websocket", Take: h.take}
}

func (h *Handler) take(a *front.Arrival) {
	loops := nodeaccess.Of(h.acceptor)
	hs, refused := h.agree(a.Request)
	if loops == nil || refused != nil {
		return // net/http gets the request, and h tells the client
	}
	b := netio.Get(maxAnswer)
	b.B = hs.appendAnswer(b.B)
	taken := a.Take(http.StatusSwitchingProtocols, b.B)
	b.Free()
	if !taken {
		return
	}
	candidate := h.candidate(a.Ctx, &hs, a.Request)
	candidate.Early, candidate.Watched, candidate.TLS = a.Early, true, a.TLS
	driver.NewLoopConn(a.Loop, a.FD, h.newEndpoint(&hs)).Start(loops, candidate)
}
