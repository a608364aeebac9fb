package sockjs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// stashSize is how many bytes, or one frame, Write takes while no request receives. More would weaken the bound of the
// core's queue.
const stashSize = 32 << 10

// session implements transport.Conn over requests that receive one after the other. The request that receives writes.
type session struct {
	handler *Handler
	id      string
	wake    chan struct{} // has an element if there is something to write
	done    chan struct{} // closed when the session has ended

	peerMu sync.Mutex
	peer   transport.Peer // nil before accepting and after Closed

	mu       sync.Mutex
	sender   sender
	out      []byte // JSON strings, each with a comma behind it
	opened   bool   // the client got its first frame
	attached bool   // a request receives
	starved  bool   // Write took less than all bytes
	closing  bool
	last     string      // the close frame; empty before Close, and if the client is told nothing
	timer    *time.Timer // ends the session
	ended    bool
	cause    error         // for Peer.Closed
	resume   chan struct{} // closed when the pause ends; nil if there is none
}

var (
	errAttached = errors.New("another request receives")
	errUnknown  = errors.New("no such session")
)

// join returns the session of a request that receives, and makes it if there is none. It returns nil if the request was
// answered.
func (h *Handler) join(w http.ResponseWriter, r *http.Request, id string) *session {
	h.mu.Lock()
	s := h.sessions[id]
	h.mu.Unlock()
	switch {
	case s != nil && !s.sentBy(r):
		http.NotFound(w, r)
		return nil
	case s != nil:
		return s
	case !h.admit(w, r):
		return nil
	}
	fresh := &session{handler: h, id: id, sender: sender{first: r.Header}, wake: make(chan struct{}, 1), done: make(chan struct{})}
	fresh.peerMu.Lock() // until the core has taken it
	defer fresh.peerMu.Unlock()
	h.mu.Lock()
	if s = h.sessions[id]; s == nil {
		s, h.sessions[id] = fresh, fresh
	}
	h.mu.Unlock()
	switch {
	case s == fresh:
		s.accept(r)
	case !s.sentBy(r):
		http.NotFound(w, r)
		return nil
	}
	return s
}

func (s *session) sentBy(r *http.Request) bool {
	s.mu.Lock()
	ok := s.sender.sends(r.Header, s.handler.cfg.Identity)
	s.mu.Unlock()
	if !ok && s.handler.cfg.Stranger != nil {
		s.handler.cfg.Stranger(r)
	}
	return ok
}

func (s *session) accept(r *http.Request) {
	returned := false
	defer func() {
		if !returned { // the acceptor panicked
			s.finish(nil)
		}
	}()
	header := r.Header
	var err error
	s.peer, err = s.handler.acceptor.Accept(context.WithoutCancel(r.Context()), s, transport.Info{
		Name: name, Framer: stringFramer{}, RemoteAddr: r.RemoteAddr, HTTP: uint8(r.ProtoMajor), Header: func() http.Header { return header },
	})
	returned = true
	if err != nil {
		d := protocol.DisconnectServerError
		errors.As(err, &d)
		s.Close(d, nil)
	}
}

func (s *session) attach() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return errUnknown
	case s.attached:
		return errAttached
	}
	s.attached = true
	if !s.quiet() {
		s.stopTimer()
	}
	return nil
}

// The lock is held.
func (s *session) quiet() bool { return s.closing && s.last == "" }

// detach ends the receiving of a request. Another one must come soon.
func (s *session) detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attached = false
	if !s.ended && s.timer == nil {
		s.startTimer()
	}
}

func (s *session) startTimer() {
	s.timer = time.AfterFunc(s.handler.cfg.DisconnectDelay, func() {
		s.end(errors.New("transport: connection lost: no request receives"))
	})
}

func (s *session) stopTimer() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// next returns the frame that the client gets next, "" if there is none. final: it is the last one. drained: the peer
// waits for everything to be written.
func (s *session) next() (frame string, final, drained bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.opened:
		s.opened = true
		return "o", false, false
	case len(s.out) > 0:
		frame = "a[" + string(s.out[:len(s.out)-1]) + "]"
		s.out = nil
		return frame, false, false
	case s.closing:
		return s.last, s.last != "", false
	}
	drained, s.starved = s.starved, false
	return "", false, drained
}

// end must not be called by the peer.
func (s *session) end(cause error) {
	if s.finish(cause) {
		s.tell()
	}
}

// finish is the part of end that the peer may call. It reports whether tell has to follow.
func (s *session) finish(cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	if s.ended = true; !s.closing {
		s.cause = cause
	}
	s.stopTimer()
	close(s.done)
	h := s.handler
	h.mu.Lock()
	delete(h.sessions, s.id)
	h.mu.Unlock()
	return true
}

func (s *session) tell() {
	s.peerMu.Lock()
	defer s.peerMu.Unlock()
	if s.peer != nil {
		s.peer.Closed(s.cause)
		s.peer = nil
	}
}

// Write implements transport.Conn.
func (s *session) Write(frames [][]byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.ended {
		return 0, net.ErrClosed
	}
	for _, run := range frames {
		fits := whole(run, len(s.out))
		s.out = append(s.out, run[:fits]...)
		if n += fits; fits < len(run) {
			s.starved = true
			break
		}
	}
	s.signal()
	return n, nil
}

// whole returns the length of the frames at the beginning of run that fit into a stash with held bytes, of at least one
// if it is empty.
func whole(run []byte, held int) (size int) {
	for size < len(run) {
		next := size + frameSize(run[size:])
		if held+next > stashSize && held+size > 0 {
			break
		}
		size = next
	}
	return size
}

func frameSize(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 2 // the comma, too
		}
	}
	return len(b)
}

// Close implements transport.Conn.
func (s *session) Close(d protocol.Disconnect, frames [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.ended {
		return
	}
	s.closing, s.cause = true, d
	s.release()
	if d.Code == protocol.DisconnectConnectionClosed.Code {
		go s.end(d) // the peer may be the caller
		return
	}
	s.out = slices.Concat(append([][]byte{s.out}, frames...)...)
	if d.Code != 0 {
		s.last = closeFrame(d)
	}
	if s.timer == nil && (s.last == "" || !s.attached) {
		s.startTimer()
	}
	s.signal()
}

// Pause implements transport.Conn.
func (s *session) Pause(pause bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !pause {
		s.release()
	} else if s.resume == nil && !s.closing {
		s.resume = make(chan struct{})
	}
}

// The lock is held.
func (s *session) release() {
	if s.resume != nil {
		close(s.resume)
		s.resume = nil
	}
}

func (s *session) awaitTurn(ctx context.Context) error {
	s.mu.Lock()
	resume := s.resume
	s.mu.Unlock()
	if resume == nil {
		return nil
	}
	select {
	case <-resume:
		return nil
	case <-s.done:
		return errUnknown
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// receive reports false if the session has ended.
func (s *session) receive(message string) bool {
	s.peerMu.Lock()
	defer s.peerMu.Unlock()
	if s.peer != nil {
		s.peer.Receive([]byte(message))
	}
	return s.peer != nil
}

func (s *session) writable() {
	s.peerMu.Lock()
	defer s.peerMu.Unlock()
	if s.peer != nil {
		s.peer.Writable()
	}
}

func lost(err error) error { return fmt.Errorf("transport: connection lost: %w", err) }
