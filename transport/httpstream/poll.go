package httpstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/bookmark"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/httpstream/internal/framing"
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

// polling is the connection of a UniPoll request. The core writes to it until there is something to
// answer; what comes later, the next request recovers.
type polling struct {
	wake chan struct{} // text has more, or closed is set

	mu     sync.Mutex
	text   []byte // lines: messages and bookmarks
	closed *protocol.Disconnect
}

// Write implements transport.Conn.
func (p *polling) Write(frames [][]byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.text) > maxPolled {
		return 0, nil
	}
	n = p.add(frames)
	return n, nil
}

// Close implements transport.Conn.
func (p *polling) Close(d protocol.Disconnect, frames [][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed == nil {
		p.closed = &d
		p.add(frames)
	}
}

func (p *polling) add(frames [][]byte) int {
	before := len(p.text)
	p.text = append(p.text, bytes.Join(frames, nil)...)
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return len(p.text) - before
}

// Pause does nothing, because the client sends nothing.
func (*polling) Pause(bool) {}

func (p *polling) read() (text []byte, closed *protocol.Disconnect) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text, p.closed
}

// answerPoll waits for something that a UniPoll client does not know yet, and answers with it.
func (h *Handler) answerPoll(w http.ResponseWriter, r *http.Request, q *front.Request, o *opening) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // those of http.Server are for usual requests
	_ = control.SetWriteDeadline(time.Time{})
	p := &polling{wake: make(chan struct{}, 1)}
	c := h.candidate(context.WithoutCancel(r.Context()), q, o, framing.Of(framing.Lines, false))
	c.Info.NativePing, c.Info.Brief = true, true
	peer, err := h.acceptor.Accept(c.Ctx, p, c.Info)
	if err != nil {
		d := protocol.DisconnectServerError
		errors.As(err, &d)
		h.answer(w, statusOf(d), &polled{Disconnect: &d})
		return
	}
	status, answer := p.wait(r.Context(), h.cfg.PollTimeout, o.connect)
	peer.Closed(protocol.DisconnectConnectionClosed)
	if answer != nil {
		h.answer(w, status, answer)
	}
}

// wait returns the answer; nil if the client has gone.
func (p *polling) wait(client context.Context, timeout time.Duration, req *protocol.ConnectRequest) (status int, a *polled) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var late, waited, gathers bool
	for {
		select {
		case <-p.wake:
		case <-timer.C:
			late = true
		case <-client.Done():
			return 0, nil
		}
		text, closed := p.read()
		switch status, a = read(text, closed, req); {
		case a == nil || gathers && !late && closed == nil:
		case late || closed != nil || a.news && !waited:
			return status, a
		case a.news:
			gathers = true
			timer.Reset(gather)
		default:
			waited = true
		}
	}
}

// answer sends an answer.
func (h *Handler) answer(w http.ResponseWriter, status int, a *polled) {
	header := w.Header()
	for _, f := range fields {
		header.Set(f.name, f.value)
	}
	header.Set("Content-Type", "application/json")
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		header.Set("Retry-After", "1")
	}
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	if err := e.Encode(a); err != nil { // a payload is not JSON, though the core has checked it
		status, body = http.StatusInternalServerError, bytes.Buffer{}
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(h.cfg.WriteTimeout))
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // if this fails, the client has gone
}

// polled is an answer.
type polled struct {
	Pushes []json.RawMessage    `json:"pushes,omitzero"`
	Subs   map[string]*position `json:"subs,omitzero"`
	Lost   []string             `json:"lost,omitempty"`
	Data   json.RawMessage      `json:"data,omitempty"`
	// Disconnect says why the client could not connect.
	Disconnect *protocol.Disconnect `json:"disconnect,omitempty"`

	news bool // the client does not know all of it
}

// position is what the next request says of a channel.
type position struct {
	Recover bool   `json:"recover,omitempty"`
	Offset  uint64 `json:"offset,omitempty"`
	Epoch   string `json:"epoch,omitempty"`
	Delta   string `json:"delta,omitempty"`
}

// read makes the answer of what the core has written; nil: it waits for the client to connect.
func read(text []byte, closed *protocol.Disconnect, req *protocol.ConnectRequest) (status int, a *polled) {
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	var push protocol.Push
	switch {
	case len(first) == 0 && closed == nil:
		return 0, nil
	case len(first) > 0 && push.UnmarshalJSON(first) != nil, push.Connect == nil:
		d := protocol.DisconnectServerError
		if closed != nil {
			d = *closed
		}
		return statusOf(d), &polled{Disconnect: &d}
	case len(req.Subs) > 0 && len(push.Connect.Subs) == 0:
		return http.StatusForbidden, &polled{Disconnect: &protocol.DisconnectPermissionDenied, news: true}
	}
	a = &polled{Pushes: []json.RawMessage{}, Subs: make(map[string]*position), Data: json.RawMessage(push.Connect.Data)}
	for ch, sub := range push.Connect.Subs {
		for _, p := range sub.Publications {
			a.add(&protocol.Push{Channel: ch, Pub: p})
		}
	}
	last := a.take(rest)
	a.setSubs(req, push.Connect, last)
	a.news = a.news || len(a.Pushes) > 0
	return http.StatusOK, a
}

func (a *polled) add(p *protocol.Push) {
	if text, err := p.AppendJSON(nil); err == nil { // it was decoded from JSON
		a.Pushes = append(a.Pushes, text)
	}
}

// take takes the messages behind the connect push. It returns the last bookmark. A message whose
// bookmark is still to come is left for the next request.
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
			a.Pushes = append(a.Pushes, line)
		}
	}
	if open && len(a.Pushes) > 0 {
		a.Pushes = a.Pushes[:len(a.Pushes)-1]
	}
	return last
}

// setSubs sets what the next request says of channels: the positions of those that are recoverable, and
// the others that the request named. A position that is not that of the request is news.
func (a *polled) setSubs(req *protocol.ConnectRequest, c *protocol.Connect, last string) {
	for ch, at := range bookmark.Parse(last) {
		p := &position{Recover: true, Offset: at.Offset, Epoch: at.Epoch}
		a.Subs[ch] = p
		asked := req.Subs[ch]
		if asked != nil {
			p.Delta = asked.Delta
		}
		if asked != nil && asked.Recover && asked.Offset == at.Offset && asked.Epoch == at.Epoch {
			continue
		}
		a.news = true
		if sub := c.Subs[ch]; asked != nil && asked.Recover && sub != nil && !sub.Recovered {
			a.Lost = append(a.Lost, ch)
		}
	}
	for ch, asked := range req.Subs {
		if a.Subs[ch] == nil && c.Subs[ch] != nil && !c.Subs[ch].Recoverable {
			a.Subs[ch] = &position{Delta: asked.Delta}
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
