package httpstream

import (
	"bytes"
	"net/http"
	"time"

	"github.com/gyrohq/gyro/protocol"
)

const (
	// maxPollText is the most bytes of messages in an answer.
	maxPollText = 1 << 20
	// gatherTime is how long a request waits on after the first push, so that one answer has all pushes that come
	// together.
	gatherTime = 5 * time.Millisecond
	// maxPollBookmark is the most bytes of positions in an answer.
	maxPollBookmark = 1 << 20
)

// pollBuffer collects the messages for a UniPoll request until there is something to answer. The next request recovers
// the later ones.
type pollBuffer struct {
	req    *protocol.ConnectRequest
	text   []byte // lines: messages and bookmarks
	closed *protocol.Disconnect

	timedOut  bool // the request has waited long enough
	upToDate  bool // the client knew everything when it had connected
	gathering bool
}

func (p *pollBuffer) write(frames [][]byte) (n int) {
	if len(p.text) > maxPollText {
		return 0
	}
	return p.append(frames)
}

func (p *pollBuffer) close(d protocol.Disconnect, frames [][]byte) {
	if p.closed == nil {
		p.closed = &d
		p.append(frames)
	}
}

func (p *pollBuffer) append(frames [][]byte) (n int) {
	for _, f := range frames {
		p.text = append(p.text, f...)
		n += len(f)
	}
	return n
}

// answer is called when something has changed; nil: not yet. If gather is true, the caller sets timedOut after
// gatherTime.
func (p *pollBuffer) answer() (a *pollAnswer, gather bool) {
	if p.gathering && !p.timedOut && p.closed == nil {
		return nil, false
	}
	switch a = p.makeAnswer(); {
	case a == nil:
		return nil, false
	case p.timedOut || p.closed != nil || a.news && !p.upToDate:
		return a, false
	case a.news:
		p.gathering = true
		return nil, true
	}
	p.upToDate = true
	return nil, false
}

// makeAnswer returns nil before the client has connected.
func (p *pollBuffer) makeAnswer() (a *pollAnswer) {
	first, rest, _ := bytes.Cut(p.text, []byte("\n"))
	var push protocol.Push
	switch {
	case len(first) == 0 && p.closed == nil:
		return nil
	case len(first) > 0 && push.UnmarshalJSON(first) != nil, push.Connect == nil:
		if p.closed != nil {
			return failedAnswer(*p.closed)
		}
		return failedAnswer(protocol.DisconnectServerError)
	case len(p.req.Subs) > 0 && len(push.Connect.Subs) == 0:
		a = failedAnswer(protocol.DisconnectPermissionDenied)
	default:
		a = &pollAnswer{status: http.StatusOK, subs: make(map[string]*position), data: push.Connect.Data}
		for ch, sub := range push.Connect.Subs {
			for _, pub := range sub.Publications {
				a.addPublication(ch, pub)
			}
		}
		last := a.addMessages(rest)
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
