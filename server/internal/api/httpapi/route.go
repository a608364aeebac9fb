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
			Method: http.MethodPost, Path: h.path(m), ContentType: jsonType[0], Check: h.checkFrequent,
			Answer: func(ctx context.Context, q *front.Request, exec any, body, out []byte) (int, []byte) {
				req := m.NewRequest()
				if req.UnmarshalJSON(body) != nil {
					return 0, out
				}
				return h.execute(ctx, exec.(*api.Executor), m, req, out, false, q)
			},
		})
	}
	return routes
}

// checkFrequent returns the executor for a request that has a known key in a field and wants errors as they are by
// default. The executor has the rights that are in force now, as with net/http, which also finds the sender before the
// body has arrived.
func (h *Handler) checkFrequent(q *front.Request) (exec any, ok bool) {
	if q.Query != "" || wantsTransport(q) {
		return nil, false
	}
	return h.guard().AdmitKey(h.exec, presented(q).Key)
}
