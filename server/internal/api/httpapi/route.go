package httpapi

import (
	"context"
	"net/http"

	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/transport/front"
)

// frequent are the methods that backends call for each event.
var frequent = []api.Method{
	api.MethodPublish, api.MethodBroadcast, api.MethodMapPublish, api.MethodMapRemove, api.MethodSharedPollPublish,
}

// Routes returns routes for the frequent requests of backends that keep their connections, if the requests are small
// and written as usual clients write them. They avoid net/http, which is most of the cost of a publish. Everything
// else, such as a wrong key, malformed JSON or another method, is left to h as a handler of net/http, which must serve
// the paths as well. The routes have no Gate.
func (h *Handler) Routes() []front.Route {
	if h.transport { // errors have HTTP statuses of their own there
		return nil
	}
	var routes []front.Route
	for _, m := range frequent {
		routes = append(routes, front.Route{
			Method: http.MethodPost, Path: h.path(m), ContentType: jsonType[0], Check: h.mayAnswer,
			Answer: func(ctx context.Context, q *front.Request, body, out []byte) (int, []byte) {
				exec, guard := h.exec, h.guard()
				// A reload may have replaced the guard since mayAnswer asked it, while the body came. No guard comes
				// back, so the first one is the one that was asked.
				if guard != h.first || !guard.Unlimited() {
					var err error
					if exec, err = guard.Admit(ctx, exec, presented(q)); err != nil {
						return 0, out
					}
				}
				req := m.NewRequest()
				if req.UnmarshalJSON(body) != nil {
					return 0, out
				}
				return h.execute(ctx, exec, m, req, out, false, q)
			},
		})
	}
	return routes
}

// mayAnswer reports whether a request has a key that is known, in a field, and wants errors as they
// are by default.
func (h *Handler) mayAnswer(q *front.Request) bool {
	return q.Query == "" && !wantsTransport(q) && h.guard().Knows(presented(q).Key)
}
