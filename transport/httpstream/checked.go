package httpstream

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/httpstream/internal/endpoint"
	"github.com/gyrohq/gyro/transport/httpstream/internal/framing"
	"github.com/gyrohq/gyro/transport/internal/driver"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// answersConnect reports whether the head of the answer tells the result of connecting.
func (h *Handler) answersConnect() bool {
	return h.cfg.ConnectAnswers != nil && h.traits.mode == transport.OneWay
}

func (h *Handler) openChecked(w http.ResponseWriter, r *http.Request, q *front.Request, o *opening) {
	f := framing.Of(h.traits.formatOf(o.encoding), false)
	candidate := h.candidate(context.WithoutCancel(r.Context()), q, o, f)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // connecting may take long
	t := &pendingConn{result: make(chan error, 1)}
	peer, err := h.acceptor.Accept(candidate.Ctx, t, candidate.Info)
	if err != nil {
		h.answerFailure(w, err)
		return
	}
	select {
	case err = <-t.result:
	case <-r.Context().Done():
		peer.Closed(r.Context().Err())
		return
	}
	h.bound(w)
	if err != nil {
		h.answerFailure(w, err)
		peer.Closed(err)
		return
	}
	if err := h.begin(w, r); err != nil {
		peer.Closed(err)
		return
	}
	driver.NewStreamConn(netio.NewStream(newResponses(w, r)), endpoint.New(&h.endpoint, f)).Serve(&accepted{t, peer}, candidate, false)
}

func (h *Handler) answerFailure(w http.ResponseWriter, err error) {
	d, refused := errors.AsType[protocol.Disconnect](err)
	if !refused {
		e, ok := errors.AsType[*protocol.Error](err)
		if !ok {
			e = protocol.ErrorInternal
		}
		d = protocol.Disconnect{Code: e.Code, Reason: e.Message}
	}
	answer, ok := h.cfg.ConnectAnswers[d.Code]
	if !ok {
		answer = ConnectAnswer{http.StatusInternalServerError, http.StatusText(http.StatusInternalServerError)}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(answer.Status)
	_, _ = io.WriteString(w, cmp.Or(answer.Body, d.Reason)) // if this fails, the client has gone
}

// pendingConn is the connection of a client that has not connected yet, and later wraps its connection.
type pendingConn struct {
	// result of connecting; nil is success.
	result chan error

	mu      sync.Mutex
	conn    transport.Conn // nil before the stream begins
	decided bool
	refused error  // why connecting failed; nil: the disconnect says it
	close   func() // the close that Close asked for while conn was nil; nil: nothing
}

// Write is called first with the connect push. It takes nothing before the stream begins.
func (t *pendingConn) Write(frames [][]byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn != nil {
		return t.conn.Write(frames)
	}
	t.decide(nil)
	return 0, nil
}

func (t *pendingConn) Close(d protocol.Disconnect, frames [][]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn != nil {
		t.conn.Close(d, frames)
		return
	}
	if t.close == nil {
		queue := [][]byte{slices.Concat(frames...)}
		t.close = func() { t.conn.Close(d, queue) }
	}
	if t.refused != nil {
		t.decide(t.refused)
		return
	}
	t.decide(d)
}

func (t *pendingConn) Refused(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused = err
}

// Pause does nothing, because the client sends nothing.
func (t *pendingConn) Pause(bool) {}

func (t *pendingConn) decide(err error) {
	if !t.decided {
		t.decided = true
		t.result <- err
	}
}

type accepted struct {
	*pendingConn
	peer transport.Peer
}

func (a *accepted) Accept(_ context.Context, c transport.Conn, _ transport.Info) (transport.Peer, error) {
	a.mu.Lock()
	if a.conn = c; a.close != nil {
		a.close()
	}
	a.mu.Unlock()
	a.peer.Writable()
	return a.peer, nil
}
