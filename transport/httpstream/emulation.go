package httpstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/gyrohq/gyro/internal/nodeaccess"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/internal/refuse"
)

// EmulationConfig of an Emulation. The zero value is ready to use.
type EmulationConfig struct {
	// MaxRequestBodySize is the most bytes in a body. Larger requests get 413. The node takes at most 1 MiB of commands,
	// so more is of no use. Default: 65536.
	MaxRequestBodySize int
	// AllowOrigin reports whether the page that sends a request (field Origin) may read the answer. Others are served as
	// well, without the fields of CORS, so browsers hide the answer. Any goroutine calls it; it must not block. Default:
	// none may.
	AllowOrigin func(q *front.Request) bool
}

// Emulation serves the requests with the commands of clients that have streams: it hands them to the node that has
// the stream, whichever node got the request. It is safe for concurrent use.
//
// The answer is 204 when the commands were dispatched, and also if there is no such session, so that guessing does
// not reveal sessions; 404 if the node is not in the cluster, and 500 if it has not answered within 10 s. Replies
// come by the stream.
type Emulation struct {
	emulator transport.Emulator
	maxBody  int
	cors     cors
	refuser  refuse.Refuser
}

// NewEmulation returns a handler that passes commands to e, a *gyro.Node.
func NewEmulation(e transport.Emulator, c EmulationConfig) *Emulation {
	if c.MaxRequestBodySize <= 0 {
		c.MaxRequestBodySize = 64 << 10
	}
	node, _ := e.(transport.Acceptor)
	refuser := refuse.Refuser{Acceptor: node, Kind: "emulation request refused", Allow: postMethods}
	return &Emulation{emulator: e, maxBody: c.MaxRequestBodySize, cors: c.AllowOrigin, refuser: refuser}
}

// Route returns a route for small requests that are written as usual. It avoids net/http, which would take most of the
// CPU. All other requests go to net/http, so h must serve the path there as well. Middleware does not see the requests
// of the route; its Gate does.
func (h *Emulation) Route(path string) front.Route {
	r := front.Route{
		Method: http.MethodPost, Path: path, Fields: h.cors.append,
		Check: func(q *front.Request) (any, bool) { return nil, q.ContentLength() <= h.maxBody },
		Answer: func(ctx context.Context, q *front.Request, _ any, body, out []byte) (int, []byte) {
			var req protocol.EmulationRequest
			if decodeEmulation(q.Get("Content-Type"), body, &req) != nil {
				return 0, out // net/http gets the request, and h refuses it
			}
			return h.emulate(ctx, q, &req), out
		},
	}
	if emulate := nodeaccess.EmulateOf(h.emulator); emulate != nil {
		r.Try = func(l transport.Loop, q *front.Request, body []byte) (status int, next transport.Loop) {
			var req protocol.EmulationRequest
			if decodeEmulation(q.Get("Content-Type"), body, &req) != nil {
				return 0, nil // as in Answer
			}
			if next = emulate(l, req.Node, req.Session, req.Data); next == l {
				status = http.StatusNoContent
			}
			return status, next
		}
	}
	return r
}

// ServeHTTP implements http.Handler.
func (h *Emulation) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, began := front.FromHTTP(r), time.Now()
	h.cors.set(q, w.Header())
	switch r.Method {
	case http.MethodPost:
	case http.MethodOptions:
		preflight(w, postMethods)
		return
	default:
		h.refuse(w, r, q, http.StatusMethodNotAllowed, "", "commands come by POST")
		return
	}
	body, status := readBody(w, r, h.maxBody)
	prolong(w, began)
	var req protocol.EmulationRequest
	switch {
	case status == http.StatusRequestEntityTooLarge:
		h.refuse(w, r, q, status, "httpstream.EmulationConfig.MaxRequestBodySize", "the body has more than "+strconv.Itoa(h.maxBody)+" bytes")
		return
	case status != 0:
		h.refuse(w, r, q, status, "", "the body did not arrive")
		return
	case decodeEmulation(r.Header.Get("Content-Type"), body, &req) != nil:
		h.refuse(w, r, q, http.StatusBadRequest, "", "the body is no emulation request")
		return
	}
	status = h.emulate(context.WithoutCancel(r.Context()), q, &req)
	prolong(w, began)
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return
	}
	http.Error(w, http.StatusText(status), status)
}

func (h *Emulation) refuse(w http.ResponseWriter, r *http.Request, q *front.Request, status int, key, text string) {
	if status != http.StatusBadRequest {
		refuse.HangUp(w, r, grace)
	}
	h.refuser.Refuse(w, q, &refuse.Refusal{Status: status, Text: text, Key: key, Body: statusText(status) + ": " + text})
}

func statusText(status int) string {
	if status == statusClosed {
		return "Client Closed Request"
	}
	return http.StatusText(status)
}

func decodeEmulation(contentType string, body []byte, req *protocol.EmulationRequest) error {
	if contentType == protobufType {
		return req.UnmarshalProto(body)
	}
	return req.UnmarshalJSON(body)
}

func (h *Emulation) emulate(ctx context.Context, q *front.Request, req *protocol.EmulationRequest) int {
	err := h.emulator.Emulate(ctx, req.Node, req.Session, req.Data)
	switch {
	case err == nil:
		return http.StatusNoContent
	case errors.Is(err, transport.ErrUnknownNode):
		// The text of err has the name that the client sent.
		err = refusal.Because(transport.ErrUnknownNode, "", "the node that the client was connected to is not in the cluster any more, or the node's name is wrong")
		return h.report(slog.LevelInfo, q, http.StatusNotFound, err)
	case errors.Is(err, protocol.ErrorLimitExceeded):
		return h.report(slog.LevelInfo, q, http.StatusRequestEntityTooLarge, err)
	}
	return h.report(slog.LevelWarn, q, http.StatusInternalServerError, err)
}

func (h *Emulation) report(level slog.Level, q *front.Request, status int, why error) int {
	h.refuser.Report(q, level, status, why)
	return status
}
