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

func (h *Handler) pollCandidate(ctx context.Context, q *front.Request, o *opening) driver.Candidate {
	c := h.candidate(ctx, q, o, framing.Of(framing.Lines, false))
	c.Info.NativePing, c.Info.Brief = true, true
	return c
}

// loopPoll is a UniPoll request on a loop, and its transport.Conn.
type loopPoll struct {
	pollBuffer
	handler *Handler
	loop    transport.Loop
	request *front.Deferred
	peer    transport.Peer // nil before accepting, and once the client has an answer or has gone
	timer   transport.Timer
	posted  bool // tryAnswer was posted
}

func (h *Handler) takePoll(a *front.Arrival) {
	loops := nodeaccess.Of(h.acceptor)
	if loops == nil {
		return
	}
	o, refused := h.parse(a.Request, a.Body)
	if refused != nil {
		return // net/http gets the request, and h tells the client
	}
	p := &loopPoll{pollBuffer: pollBuffer{req: o.connect}, handler: h, loop: a.Loop}
	c := h.pollCandidate(a.Ctx, a.Request, &o)
	if p.request = a.Defer(p); p.request == nil {
		return
	}
	peer, err := loops.AcceptOn(a.Loop, c.Ctx, p, c.Info)
	if err != nil {
		p.send(failedAnswer(err))
		return
	}
	p.peer = peer
	p.timer = a.Loop.After(h.cfg.PollTimeout, p.timeout)
}

func (p *loopPoll) Write(frames [][]byte) (int, error) {
	defer p.wake()
	return p.write(frames), nil
}

func (p *loopPoll) Close(d protocol.Disconnect, frames [][]byte) {
	p.close(d, frames)
	p.wake()
}

// Pause does nothing, because the client sends nothing.
func (*loopPoll) Pause(bool) {}

// wake posts tryAnswer, which the peer must not call.
func (p *loopPoll) wake() {
	if !p.posted {
		p.posted = p.loop.Post(p.tryAnswer)
	}
}

func (p *loopPoll) tryAnswer() {
	p.posted = false
	if p.peer == nil {
		return
	}
	a, gather := p.answer()
	if gather {
		time.AfterFunc(gatherTime, func() { p.loop.Post(p.timeout) }) // the timers of loops are not that precise
	}
	if a != nil {
		p.send(a)
		p.end()
	}
}

func (p *loopPoll) timeout() {
	p.timedOut = true
	p.tryAnswer()
}

func (p *loopPoll) send(a *pollAnswer) {
	extra := ""
	if a.retries() {
		extra = retryAfter
	}
	b := netio.Get(len(p.text) + 512)
	b.B = a.appendJSON(b.B)
	p.request.Answer(a.status, extra, b.B, p.handler.cfg.WriteTimeout)
	b.Free()
}

func (p *loopPoll) Gone() { p.end() }

func (p *loopPoll) end() {
	peer := p.peer
	if peer == nil {
		return
	}
	p.peer = nil
	p.timer.Stop()
	peer.Closed(protocol.DisconnectConnectionClosed)
}

func (h *Handler) appendPollFields(q *front.Request, head []byte) []byte {
	head = cors(h.cfg.AllowOrigin).append(q, head)
	for _, f := range fields {
		head = appendField(head, f.name, f.value)
	}
	return head
}

// blockingPoll is a UniPoll request with a goroutine, and its transport.Conn.
type blockingPoll struct {
	wake chan struct{} // the poll has changed

	mu sync.Mutex
	pollBuffer
}

func (p *blockingPoll) Write(frames [][]byte) (n int, err error) {
	p.update(func() { n = p.write(frames) })
	return n, nil
}

func (p *blockingPoll) Close(d protocol.Disconnect, frames [][]byte) {
	p.update(func() { p.close(d, frames) })
}

// Pause does nothing, because the client sends nothing.
func (*blockingPoll) Pause(bool) {}

func (p *blockingPoll) update(f func()) {
	p.mu.Lock()
	f()
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (h *Handler) answerPoll(w http.ResponseWriter, r *http.Request, q *front.Request, o *opening) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the deadlines of http.Server are for usual requests
	_ = control.SetWriteDeadline(time.Time{})
	p := &blockingPoll{wake: make(chan struct{}, 1), pollBuffer: pollBuffer{req: o.connect}}
	c := h.pollCandidate(context.WithoutCancel(r.Context()), q, o)
	peer, err := h.acceptor.Accept(c.Ctx, p, c.Info)
	if err != nil {
		h.sendAnswer(w, failedAnswer(err))
		return
	}
	a := p.wait(r.Context(), h.cfg.PollTimeout)
	peer.Closed(protocol.DisconnectConnectionClosed)
	if a == nil {
		w.WriteHeader(statusClosed)
		return
	}
	h.sendAnswer(w, a)
}

// wait returns the answer; nil if the client has gone.
func (p *blockingPoll) wait(client context.Context, timeout time.Duration) *pollAnswer {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		timedOut := false
		select {
		case <-p.wake:
		case <-timer.C:
			timedOut = true
		case <-client.Done():
			return nil
		}
		p.mu.Lock()
		p.timedOut = p.timedOut || timedOut
		a, gather := p.answer()
		p.mu.Unlock()
		if a != nil {
			return a
		}
		if gather {
			timer.Reset(gatherTime)
		}
	}
}

func (h *Handler) sendAnswer(w http.ResponseWriter, a *pollAnswer) {
	header := w.Header()
	for _, f := range fields {
		header.Set(f.name, f.value)
	}
	header.Set("Content-Type", jsonType)
	if a.retries() {
		header.Set("Retry-After", "1")
	}
	body := a.appendJSON(nil)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(h.cfg.WriteTimeout))
	w.WriteHeader(a.status)
	_, _ = w.Write(body) // if this fails, the client has gone
}

const jsonType = "application/json"
