package front

import "github.com/gyrohq/gyro/transport/front/internal/syntax"

// matchState of a look at the first bytes of a request.
type matchState int

const (
	// partial: the bytes can become a request for a route.
	partial matchState = iota
	// complete: the bytes hold the whole head of a request for a route's path.
	complete
	// foreign: net/http gets the request.
	foreign
)

const (
	// headSlack is how many bytes net/http reads beyond Server.MaxHeaderBytes.
	headSlack = 4096
	// maxBody bounds the bodies that routes get; bytes.
	maxBody = 64 << 10
)

// routes of a Listener, either the routes for loops or the routes for goroutines.
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

// advertise appends the fields of Advertise.
func (r *route) advertise(q *Request, head []byte) []byte {
	if r.Advertise == nil {
		return head
	}
	return r.Advertise(q, head)
}

// admits asks Check for a loop, where the value is not needed.
func (r *route) admits(q *Request) bool {
	_, ok := r.Check(q)
	return ok
}

// match returns the route for the request that data begins with.
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

// judge finds out whether data begins with the head of a request for a route, and where that
// ends. The head does not end in the first scanned bytes. One of more than limit bytes is
// foreign.
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

// wants reports whether the route serves a request for its path. Other requests are foreign.
func (r *route) wants(q *Request) bool {
	if r.body == 0 && q.length >= 0 || r.body > 0 && (q.length < 0 || q.length > r.body) {
		return false
	}
	if r.Upgrade == "" {
		return q.Get("Upgrade") == ""
	}
	return q.HasToken("Upgrade", r.Upgrade)
}
