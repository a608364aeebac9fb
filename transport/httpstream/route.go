package httpstream

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gyrohq/gyro/internal/nodeaccess"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/httpstream/internal/endpoint"
	"github.com/gyrohq/gyro/transport/httpstream/internal/framing"
	"github.com/gyrohq/gyro/transport/internal/driver"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// Routes returns the routes that reach h without net/http: the loops of h's acceptor read and answer usual requests. All
// others go to net/http, so h must serve the path there as well. Middleware does not see the requests of the routes;
// their Gate does.
func (h *Handler) Routes(path string) []front.Route {
	var list []front.Route
	for _, method := range h.traits.methods() {
		r := front.Route{Method: method, Path: path, Take: h.take}
		if h.traits.polls {
			r.Take, r.Fields, r.ContentType = h.takePoll, h.appendPollFields, jsonType
		}
		if method == http.MethodPost {
			r.MaxBody = h.cfg.MaxRequestBodySize
		}
		list = append(list, r)
	}
	return list
}

func (h *Handler) take(a *front.Arrival) {
	loops := nodeaccess.Of(h.acceptor)
	if loops == nil || h.answersConnect() {
		return
	}
	o, refused := h.parse(a.Request, a.Body)
	if refused != nil {
		return // net/http gets the request, and h tells the client
	}
	b := netio.Get(maxHead + len(a.Get("Origin")) + len(a.Get("Access-Control-Request-Headers")))
	b.B = h.appendHead(b.B, a.Request)
	taken := a.Take(http.StatusOK, b.B)
	b.Free()
	if !taken {
		return
	}
	f := framing.Of(h.traits.formatOf(o.encoding), true)
	candidate := h.candidate(a.Ctx, a.Request, &o, f)
	candidate.Early, candidate.Watched, candidate.TLS = a.Early, true, a.TLS
	driver.NewLoopConn(a.Loop, a.FD, endpoint.New(&h.endpoint, f)).Start(loops, candidate)
}

// maxHead is the most bytes of appendHead, without what it repeats from the request.
const maxHead = 512

func (h *Handler) appendHead(b []byte, q *front.Request) []byte {
	b = append(b, "HTTP/1.1 200 OK\r\n"...)
	b = cors(h.cfg.AllowOrigin).append(q, b)
	b = append(b, usualFields...)
	if h.traits.events() {
		b = appendField(b, "Content-Type", eventStream)
	}
	b = append(b, "Date: "...)
	b = time.Now().UTC().AppendFormat(b, http.TimeFormat)
	b = append(b, "\r\nTransfer-Encoding: chunked\r\n\r\n"...)
	if h.traits.events() {
		p := h.appendPrelude(make([]byte, 0, 64))
		b = append(append(append(strconv.AppendInt(b, int64(len(p)), 16), "\r\n"...), p...), "\r\n"...)
	}
	return b
}

// usualFields are in every answer over HTTP/1.1. The connection ends with the stream: a client that expected it to stay
// open would lose its next request.
var usualFields = func() (b []byte) {
	for _, f := range fields {
		b = appendField(b, f.name, f.value)
	}
	return appendField(b, "Connection", "close")
}()

func appendField(b []byte, name, value string) []byte {
	return append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
}
