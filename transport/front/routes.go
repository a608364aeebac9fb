package front

import "github.com/gyrohq/gyro/transport/front/internal/syntax"

// matchState says what the first bytes of a request are.
type matchState int

const (
	// partial: they can become a request for a route.
	partial matchState = iota
	// complete: they hold the whole head of a request for a route's path.
	complete
	// foreign: net/http gets the request.
	foreign
)

const (
	// headSlack is how many bytes net/http reads beyond Server.MaxHeaderBytes.
	headSlack = 4096
	// maxBody is the most bytes of a body for a route.
	maxBody = 64 << 10
)

type routes []*route

type route struct {
	Route
	prefix string // the method and path that its requests begin with
	body   int    // the most bytes of a body; 0: its requests have none
}

func (rs *routes) add(r Route) {
	if r.Gate == nil {
		r.Gate = open{}
	}
	if r.Check == nil {
		r.Check = func(*Request) (any, bool) { return nil, true }
	}
	body := maxBody
	if r.Take != nil {
		body = min(r.MaxBody, maxBody)
	}
	*rs = append(*rs, &route{Route: r, prefix: r.Method + " " + r.Path, body: body})
}

func (r *route) advertise(q *Request, head []byte) []byte {
	if r.Advertise == nil {
		return head
	}
	return r.Advertise(q, head)
}

func (r *route) admits(q *Request) bool {
	_, ok := r.Check(q)
	return ok
}

func (rs routes) match(data []byte) (*route, matchState) {
	can := foreign
	for _, r := range rs {
		n := min(len(data), len(r.prefix))
		switch {
		case string(data[:n]) != r.prefix[:n]:
		case n == len(data):
			can = partial
		case data[n] == ' ' || data[n] == '?':
			return r, complete
		}
	}
	return nil, can
}

// judge finds the head of a request for a route, and its end, which is not in the first scanned bytes. A head of more
// than limit bytes is foreign.
func (rs routes) judge(data []byte, scanned, limit int) (r *route, end int, m matchState) {
	if r, m = rs.match(data); m == foreign {
		return nil, 0, foreign
	}
	end = syntax.HeadEnd(data, scanned)
	switch {
	case end > limit, end < 0 && len(data) > limit:
		return nil, 0, foreign
	case end < 0:
		return nil, 0, partial
	}
	return r, end, complete
}

func (r *route) wants(q *Request) bool {
	if r.body == 0 && q.length >= 0 || r.body > 0 && (q.length < 0 || q.length > r.body) {
		return false
	}
	if r.Upgrade == "" {
		return q.Get("Upgrade") == ""
	}
	return q.HasToken("Upgrade", r.Upgrade)
}
