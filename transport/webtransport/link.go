package webtransport

import (
	"context"
	"os"
	"sync"
	"time"

	wt "github.com/quic-go/webtransport-go"

	"github.com/gyrohq/gyro/protocol"
)

// link is a session as a stream of bytes: the first bidirectional stream of the client. Until that is open nothing can
// be read, and written bytes are dropped.
type link struct {
	session *wt.Session
	// told is what Close and Abort tell the client; the endpoint sets it.
	told protocol.Disconnect

	mu     sync.Mutex
	stream *wt.Stream // nil until the client has opened it
	// awaited ends when no goroutine waits for the stream any more.
	awaited context.Context
	giveUp  context.CancelFunc
}

func newLink(s *wt.Session) *link {
	l := &link{session: s}
	l.awaited, l.giveUp = context.WithCancel(s.Context())
	go l.refuseUni()
	return l
}

func (l *link) opened() *wt.Stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stream
}

func (l *link) open() (*wt.Stream, error) {
	if s := l.opened(); s != nil {
		return s, nil
	}
	s, err := l.session.AcceptStream(l.awaited)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.stream = s
		go l.refuse()
	}
	if l.awaited.Err() != nil && l.session.Context().Err() == nil {
		return nil, os.ErrDeadlineExceeded
	}
	return s, err
}

func (l *link) Read(p []byte) (int, error) {
	s, err := l.open()
	if err != nil {
		return 0, err
	}
	return s.Read(p)
}

func (l *link) Write(p []byte) (int, error) {
	if s := l.opened(); s != nil {
		return s.Write(p)
	}
	return len(p), nil
}

// SetReadDeadline gives the stream up if there is none: the connection ends.
func (l *link) SetReadDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream == nil {
		l.giveUp()
		return nil
	}
	return l.stream.SetReadDeadline(t)
}

func (l *link) SetWriteDeadline(t time.Time) error {
	if s := l.opened(); s != nil {
		return s.SetWriteDeadline(t)
	}
	return nil
}

func (l *link) CloseWrite() error {
	if s := l.opened(); s != nil {
		return s.Close()
	}
	return nil
}

// Close ends the session with the code and the reason of the disconnect. Bytes that the client has not received are
// lost.
func (l *link) Close() error {
	l.giveUp()
	return l.session.CloseWithError(wt.SessionErrorCode(l.told.Code), l.told.Reason)
}

func (l *link) Abort() { _ = l.Close() }

// maxRefused is how many further streams are refused before the session ends.
const maxRefused = 64

const refused wt.StreamErrorCode = 1

func (l *link) refuse() {
	for range maxRefused {
		s, err := l.session.AcceptStream(l.session.Context())
		if err != nil {
			return
		}
		s.CancelRead(refused)
		s.CancelWrite(refused)
	}
	_ = l.session.CloseWithError(tooManyStreams, "too many streams")
}

func (l *link) refuseUni() {
	for range maxRefused {
		s, err := l.session.AcceptUniStream(l.session.Context())
		if err != nil {
			return
		}
		s.CancelRead(refused)
	}
	_ = l.session.CloseWithError(tooManyStreams, "too many streams")
}

var tooManyStreams = wt.SessionErrorCode(protocol.DisconnectBadRequest.Code)
