package proxy

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/gyrohq/gyro/server/internal/proxy/message"
)

// Stream is a subscription whose publications the backend sends. Any goroutine may call it, but Receive one at a time.
type Stream struct {
	proxy         *Proxy
	conn          grpc.ClientStream
	cancel        context.CancelFunc
	bidirectional bool

	closing, ending sync.Once
	closed          atomic.Bool
	over, broken    atomic.Bool // as Receive has found out

	sending sync.Mutex
	sent    bool
}

var (
	// ErrFinished: the backend has ended the stream.
	ErrFinished = errors.New("the backend has ended the stream")
	// ErrClosed is the error of Receive after Close, and of Send after the end of the stream.
	ErrClosed = errors.New("the stream has ended")
	// ErrStreams: max_streams streams are open.
	ErrStreams = errors.New("too many streams are open already")

	errUnread = errors.New("the backend did not read from the stream within the timeout")
)

const errFirst = unusable("the first message of the stream has no subscribe_response")

const bidirectionalMethod = service + "SubscribeBidirectional"

// farewell is how long a backend may read the last data of a client.
const farewell = time.Second

// Open asks the backend about a subscription, and waits as Call does. The stream stays open until Close, also after a
// refusal. ctx bounds the wait alone. The proxy must be for SubscribeStream.
func (p *Proxy) Open(ctx context.Context, from *From, req *message.SubscribeRequest, bidirectional bool) (*Stream, *message.SubscribeResponse, error) {
	if !p.streams.add(p.config.MaxStreams) {
		p.meter.Began()
		p.meter.Ended(0, true)
		return nil, nil, &Failure{Event: p.event, Key: p.guard.key, Err: ErrStreams}
	}
	p.meter.Opened()
	s := &Stream{proxy: p, bidirectional: bidirectional}
	own, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	traced := p.traced
	if bidirectional {
		traced.Method = strings.TrimPrefix(bidirectionalMethod, "/")
	}
	var first message.StreamSubscribeResponse
	err := p.ask(ctx, &traced, nil, func(ctx context.Context, deadline time.Time) error {
		own := p.carrier.(*grpcCarrier).outgoing(own, ctx, from)
		late := time.AfterFunc(time.Until(deadline), s.cancel)
		defer context.AfterFunc(ctx, s.cancel)()
		err := s.open(own, req, &first)
		if !late.Stop() {
			return errTimeout
		}
		return answered(err)
	})
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return s, first.SubscribeResponse, nil
}

func (s *Stream) open(ctx context.Context, req *message.SubscribeRequest, first *message.StreamSubscribeResponse) (err error) {
	carrier := s.proxy.carrier.(*grpcCarrier)
	desc, method, ask := &grpc.StreamDesc{ServerStreams: true}, carrier.method, Request(req)
	if s.bidirectional {
		desc.ClientStreams = true
		method, ask = bidirectionalMethod, &message.StreamSubscribeRequest{SubscribeRequest: req}
	}
	if s.conn, err = carrier.conn.NewStream(ctx, desc, method); err != nil {
		return err
	}
	// If sending fails because the stream has ended, receiving tells why it has.
	if err = s.conn.SendMsg(ask); err == nil || errors.Is(err, io.EOF) {
		err = s.conn.RecvMsg(first)
	}
	if errors.Is(err, io.EOF) || err == nil && first.SubscribeResponse == nil {
		return errFirst
	}
	return err
}

// Bidirectional tells whether the stream takes publications of the client.
func (s *Stream) Bidirectional() bool { return s.bidirectional }

// Receive waits for the next message. Errors: ErrFinished, ErrClosed, or why the stream broke.
func (s *Stream) Receive(m *message.StreamSubscribeResponse) error {
	err := s.conn.RecvMsg(m)
	if err == nil {
		return nil
	}
	s.over.Store(true)
	switch {
	case s.closed.Load():
		s.end()
		return ErrClosed
	case errors.Is(err, io.EOF):
		return ErrFinished
	}
	s.broken.Store(true)
	return err
}

// Send sends a publication of the client. If the backend does not read it within the timeout of the proxy, the stream
// breaks.
func (s *Stream) Send(data []byte) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.sent = true
	late := time.AfterFunc(s.proxy.config.Timeout, s.cancel)
	err := s.conn.SendMsg(&message.StreamSubscribeRequest{Publication: &message.Publication{Data: data}})
	switch inTime := late.Stop(); {
	case !inTime: // also if gRPC took the message at that moment: the stream is canceled
		return errUnread
	case errors.Is(err, io.EOF):
		return ErrClosed
	}
	return err
}

// Close ends the stream. If the client has sent publications, the backend may read them for a second; otherwise the
// stream ends at once. Close waits for Send alone.
func (s *Stream) Close() {
	s.closing.Do(func() {
		s.closed.Store(true)
		s.sending.Lock()
		defer s.sending.Unlock()
		if s.sent && !s.over.Load() && s.conn.CloseSend() == nil {
			time.AfterFunc(farewell, s.end)
			return
		}
		s.end()
	})
}

func (s *Stream) end() {
	s.ending.Do(func() {
		s.cancel()
		s.proxy.meter.Closed(s.broken.Load())
		s.proxy.streams.remove()
	})
}

type streams struct {
	mu    sync.Mutex
	open  int
	ended chan struct{} // closed once none is open; nil: no goroutine waits
}

// add reports false if there are limit streams already.
func (s *streams) add(limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= limit {
		return false
	}
	s.open++
	return true
}

func (s *streams) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open--; s.open == 0 && s.ended != nil {
		close(s.ended)
		s.ended = nil
	}
}

// none returns a channel that is closed when no stream is open.
func (s *streams) none() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = make(chan struct{})
	}
	ended := s.ended
	if s.open == 0 {
		close(ended)
		s.ended = nil
	}
	return ended
}
