package httpstream

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/bookmark"
)

const (
	// maxPolled is the most bytes of messages that wait for an answer.
	maxPolled = 1 << 20
	// gather is how long a request that has waited goes on waiting after the first push, so that one
	// answer has all pushes that come together.
	gather = 5 * time.Millisecond
	// maxPolledPositions is the most bytes of the positions in an answer.
	maxPolledPositions = 1 << 20
)

// longPoll is a UniPoll request. It collects the messages of the core until there is something to answer. The next
// request recovers the messages that the core writes later.
type longPoll struct {
	req    *protocol.ConnectRequest
	text   []byte // lines: messages and bookmarks
	closed *protocol.Disconnect

	late    bool // the request has waited long enough
	waited  bool // the client knew everything when it had connected
	gathers bool // late is set soon
}

// take takes frames as transport.Conn.Write does.
func (p *longPoll) take(frames [][]byte) (n int) {
	if len(p.text) > maxPolled {
		return 0
	}
	return p.add(frames)
}

// close takes the arguments of transport.Conn.Close.
func (p *longPoll) close(d protocol.Disconnect, frames [][]byte) {
	if p.closed == nil {
		p.closed = &d
		p.add(frames)
	}
}

func (p *longPoll) add(frames [][]byte) (n int) {
	for _, f := range frames {
		p.text = append(p.text, f...)
		n += len(f)
	}
	return n
}

// look is called when something has changed. It returns the answer once there is one. If soon is true, the
// caller sets late after the time gather.
func (p *longPoll) look() (a *polled, soon bool) {
	if p.gathers && !p.late && p.closed == nil {
		return nil, false
	}
	switch a = p.read(); {
	case a == nil:
		return nil, false
	case p.late || p.closed != nil || a.news && !p.waited:
		return a, false
	case a.news:
		p.gathers = true
		return nil, true
	}
	p.waited = true
	return nil, false
}

// polled is an answer.
type polled struct {
	status int
	pushes [][]byte // JSON
	// subs are the channels for the next request; nil if the client could not connect.
	subs       map[string]*position
	lost       []string
	refused    []string // channels of the request that the client does not get
	data       []byte
	disconnect *protocol.Disconnect // why the client could not connect

	news bool // the client does not know all of it
}

// position is an entry of a channel for the next request.
type position struct {
	recover      bool
	offset       uint64
	epoch, delta string
}

// failed is the answer to a client that could not connect.
func failed(err error) *polled {
	d := protocol.DisconnectServerError
	errors.As(err, &d)
	return &polled{status: statusOf(d), disconnect: &d, news: true}
}

// read makes the answer from the messages of the core; nil: it waits for the client to connect.
func (p *longPoll) read() (a *polled) {
	first, rest, _ := bytes.Cut(p.text, []byte("\n"))
	var push protocol.Push
	switch {
	case len(first) == 0 && p.closed == nil:
		return nil
	case len(first) > 0 && push.UnmarshalJSON(first) != nil, push.Connect == nil:
		if p.closed != nil {
			return failed(*p.closed)
		}
		return failed(protocol.DisconnectServerError)
	case len(p.req.Subs) > 0 && len(push.Connect.Subs) == 0:
		a = failed(protocol.DisconnectPermissionDenied)
	default:
		a = &polled{status: http.StatusOK, subs: make(map[string]*position), data: push.Connect.Data}
		for ch, sub := range push.Connect.Subs {
			for _, pub := range sub.Publications {
				a.add(&protocol.Push{Channel: ch, Pub: pub})
			}
		}
		last := a.take(rest)
		a.setSubs(p.req, push.Connect, last)
		a.news = a.news || len(a.pushes) > 0
	}
	for ch := range p.req.Subs {
		if push.Connect.Subs[ch] == nil {
			a.refused = append(a.refused, ch)
		}
	}
	return a
}

func (a *polled) add(p *protocol.Push) {
	if text, err := p.AppendJSON(nil); err == nil { // it was decoded from JSON
		a.pushes = append(a.pushes, text)
	}
}

// take takes the messages after the connect push. It returns the last bookmark. A message whose bookmark is still to
// come is left for the next request.
func (a *polled) take(lines []byte) (last string) {
	open := false
	for line := range bytes.Lines(lines) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		switch id, isBookmark := strings.CutPrefix(string(line), bookmark.Prefix); {
		case isBookmark:
			last, open = id, false
		case len(line) == 0:
			open = true
		default:
			a.pushes = append(a.pushes, line)
		}
	}
	if open && len(a.pushes) > 0 {
		a.pushes = a.pushes[:len(a.pushes)-1]
	}
	return last
}

// setSubs sets the channels for the next request: recoverable ones with their positions, and the others that the
// request named. A position that differs from the position in the request is news.
func (a *polled) setSubs(req *protocol.ConnectRequest, c *protocol.Connect, last string) {
	for ch, at := range bookmark.Parse(last) {
		p := &position{recover: true, offset: at.Offset, epoch: at.Epoch}
		a.subs[ch] = p
		asked := req.Subs[ch]
		if asked != nil {
			p.delta = asked.Delta
		}
		if asked != nil && asked.Recover && asked.Offset == at.Offset && asked.Epoch == at.Epoch {
			continue
		}
		a.news = true
		if sub := c.Subs[ch]; asked != nil && asked.Recover && sub != nil && !sub.Recovered {
			a.lost = append(a.lost, ch)
		}
	}
	for ch, asked := range req.Subs {
		if a.subs[ch] == nil && c.Subs[ch] != nil && !c.Subs[ch].Recoverable {
			a.subs[ch] = &position{delta: asked.Delta}
		}
	}
}

// statusOf returns the status for a client that could not connect.
func statusOf(d protocol.Disconnect) int {
	switch d.Code {
	case protocol.DisconnectExpired.Code, protocol.DisconnectInvalidToken.Code:
		return http.StatusUnauthorized
	case protocol.DisconnectTooManyRequests.Code:
		return http.StatusTooManyRequests
	case protocol.DisconnectBadRequest.Code:
		return http.StatusBadRequest
	}
	if d.Terminal() {
		return http.StatusForbidden
	}
	return http.StatusServiceUnavailable
}
