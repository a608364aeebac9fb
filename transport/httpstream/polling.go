package httpstream

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gyrohq/gyro/internal/nodeaccess"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/httpstream/internal/framing"
	"github.com/gyrohq/gyro/transport/internal/driver"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// poller describes the connection of a UniPoll request to the acceptor.
func (h *Handler) poller(ctx context.Context, q *front.Request, o *opening) driver.Candidate {
	c := h.candidate(ctx, q, o, framing.Of(framing.Lines, false))
	c.Info.NativePing, c.Info.Brief = true, true
	return c
}

// later asks a client to come back after a second.
const later = "Retry-After: 1\r\n"

// comesBack reports whether an answer has later.
func (a *polled) comesBack() bool {
	return a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests
}

// loopPoll is a UniPoll request on a loop, and its transport.Conn. It is used on the loop.
type loopPoll struct {
	longPoll
	handler *Handler
	loop    transport.Loop
	request *front.Deferred
	peer    transport.Peer // nil before accepting, and once the client has an answer or has gone
	timer   transport.Timer
	posted  bool // turn was posted
}

// takePoll defers the answer to a UniPoll request.
func (h *Handler) takePoll(a *front.Arrival) {
	loops := nodeaccess.Of(h.acceptor)
	if loops == nil {
		return
	}
	o, refused := h.parse(a.Request, a.Body)
	if refused != nil {
		return // net/http gets the request, and h tells the client
	}
	p := &loopPoll{longPoll: longPoll{req: o.connect}, handler: h, loop: a.Loop}
	c := h.poller(a.Ctx, a.Request, &o)
	if p.request = a.Defer(p); p.request == nil {
		return
	}
	peer, err := loops.AcceptOn(a.Loop, c.Ctx, p, c.Info)
	if err != nil {
		p.answer(failed(err))
		return
	}
	p.peer = peer
	p.timer = a.Loop.After(h.cfg.PollTimeout, p.due)
}

// Write implements transport.Conn.
func (p *loopPoll) Write(frames [][]byte) (int, error) {
	defer p.wake()
	return p.take(frames), nil
}

// Close implements transport.Conn.
func (p *loopPoll) Close(d protocol.Disconnect, frames [][]byte) {
	p.close(d, frames)
	p.wake()
}

// Pause does nothing, because the client sends nothing.
func (*loopPoll) Pause(bool) {}

// wake makes the loop call turn, which must not be called by the peer.
func (p *loopPoll) wake() {
	if !p.posted {
		p.posted = p.loop.Post(p.turn)
	}
}

// turn answers if there is something to answer.
func (p *loopPoll) turn() {
	p.posted = false
	if p.peer == nil {
		return
	}
	a, soon := p.look()
	if soon {
		time.AfterFunc(gather, func() { p.loop.Post(p.due) }) // the timers of loops are not that precise
	}
	if a != nil {
		p.answer(a)
		p.end()
	}
}

// due is called when the request has waited long enough.
func (p *loopPoll) due() {
	p.late = true
	p.turn()
}

func (p *loopPoll) answer(a *polled) {
	more := ""
	if a.comesBack() {
		more = later
	}
	b := netio.Get(len(p.text) + 512)
	b.B = a.appendJSON(b.B)
	p.request.Answer(a.status, more, b.B, p.handler.cfg.WriteTimeout)
	b.Free()
}

// Gone implements front.Waiting.
func (p *loopPoll) Gone() { p.end() }

// end tells the core that the connection has ended.
func (p *loopPoll) end() {
	peer := p.peer
	if peer == nil {
		return
	}
	p.peer = nil
	p.timer.Stop()
	peer.Closed(protocol.DisconnectConnectionClosed)
}

// appendPollFields appends the fields of the answer to a UniPoll request.
func (h *Handler) appendPollFields(q *front.Request, head []byte) []byte {
	head = cors(h.cfg.AllowOrigin).append(q, head)
	for _, f := range fields {
		head = appendField(head, f.name, f.value)
	}
	return head
}

// polling is a UniPoll request with a goroutine, and its transport.Conn.
type polling struct {
	wake chan struct{} // the poll has changed

	mu sync.Mutex
	longPoll
}

// Write implements transport.Conn.
func (p *polling) Write(frames [][]byte) (n int, err error) {
	p.change(func() { n = p.take(frames) })
	return n, nil
}

// Close implements transport.Conn.
func (p *polling) Close(d protocol.Disconnect, frames [][]byte) {
	p.change(func() { p.close(d, frames) })
}

// Pause does nothing, because the client sends nothing.
func (*polling) Pause(bool) {}

func (p *polling) change(f func()) {
	p.mu.Lock()
	f()
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// answerPoll waits for something that a UniPoll client does not know yet, and answers with it.
func (h *Handler) answerPoll(w http.ResponseWriter, r *http.Request, q *front.Request, o *opening) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the deadlines of http.Server are for usual requests
	_ = control.SetWriteDeadline(time.Time{})
	p := &polling{wake: make(chan struct{}, 1), longPoll: longPoll{req: o.connect}}
	c := h.poller(context.WithoutCancel(r.Context()), q, o)
	peer, err := h.acceptor.Accept(c.Ctx, p, c.Info)
	if err != nil {
		h.answer(w, failed(err))
		return
	}
	a := p.wait(r.Context(), h.cfg.PollTimeout)
	peer.Closed(protocol.DisconnectConnectionClosed)
	if a == nil {
		w.WriteHeader(statusClosed)
		return
	}
	h.answer(w, a)
}

// wait returns the answer; nil if the client has gone.
func (p *polling) wait(client context.Context, timeout time.Duration) *polled {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		late := false
		select {
		case <-p.wake:
		case <-timer.C:
			late = true
		case <-client.Done():
			return nil
		}
		p.mu.Lock()
		p.late = p.late || late
		a, soon := p.look()
		p.mu.Unlock()
		if a != nil {
			return a
		}
		if soon {
			timer.Reset(gather)
		}
	}
}

// answer sends an answer.
func (h *Handler) answer(w http.ResponseWriter, a *polled) {
	header := w.Header()
	for _, f := range fields {
		header.Set(f.name, f.value)
	}
	header.Set("Content-Type", jsonType)
	if a.comesBack() {
		header.Set("Retry-After", "1")
	}
	body := a.appendJSON(nil)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(h.cfg.WriteTimeout))
	w.WriteHeader(a.status)
	_, _ = w.Write(body) // if this fails, the client has gone
}

// jsonType is the Content-Type of answers to UniPoll requests.
const jsonType = "application/json"
