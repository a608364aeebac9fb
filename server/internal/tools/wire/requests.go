package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

const maxPosts = 1024

type requests struct {
	posts         *posts
	codec         codec.ClientCodec
	node, session string
	timeout       time.Duration
}

func (s *requests) send(ctx context.Context, frame []byte) error {
	body, err := s.body(frame)
	if err != nil {
		return err
	}
	return s.posts.send(ctx, contentType(s.codec.Encoding()), body)
}

func contentType(e protocol.Encoding) string {
	if e == protocol.Protobuf {
		return "application/octet-stream"
	}
	return "application/json"
}

func (s *requests) body(frame []byte) ([]byte, error) {
	req := protocol.EmulationRequest{Node: s.node, Session: s.session, Data: frame}
	if s.codec.Encoding() == protocol.Protobuf {
		return req.AppendProto(nil), nil
	}
	req.Data = codec.AppendJSONString(nil, frame)
	return req.AppendJSON(nil)
}

// posts sends requests over connections that it keeps. net/http would take three times the CPU, so that a server beside
// it would have little to do and be measured while it wakes up.
type posts struct {
	url   *url.URL
	dial  func(ctx context.Context, u *url.URL) (net.Conn, error)
	slots chan struct{} // has an element for each request under way

	mu     sync.Mutex
	idle   []*post
	closed bool
}

func newPosts(u *url.URL, dial func(ctx context.Context, u *url.URL) (net.Conn, error)) *posts {
	return &posts{url: u, dial: dial, slots: make(chan struct{}, maxPosts)}
}

func (s *posts) send(ctx context.Context, contentType string, body []byte) error {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p := s.take()
	if p != nil {
		err := s.exchange(ctx, p, contentType, body)
		if !errors.Is(err, errStale) || ctx.Err() != nil {
			return err
		}
	}
	conn, err := s.dial(ctx, s.url)
	if err != nil {
		return err
	}
	return s.exchange(ctx, &post{conn: conn, r: bufio.NewReader(conn)}, contentType, body)
}

func (s *posts) take() *post {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.idle) - 1
	if n < 0 {
		return nil
	}
	p := s.idle[n]
	s.idle = s.idle[:n]
	return p
}

func (s *posts) exchange(ctx context.Context, p *post, contentType string, body []byte) error {
	stop := context.AfterFunc(ctx, func() { p.conn.Close() })
	p.out = append(append(append(p.out[:0], "POST "...), s.url.RequestURI()...), " HTTP/1.1\r\nHost: "...)
	p.out = append(append(p.out, s.url.Host...), "\r\nUser-Agent: gyro-bench\r\nContent-Length: "...)
	p.out = append(strconv.AppendInt(p.out, int64(len(body)), 10), "\r\nContent-Type: "...)
	p.out = append(append(append(p.out, contentType...), "\r\n\r\n"...), body...)
	keep, err := p.exchange()
	switch {
	case !stop():
		err = errors.Join(context.Cause(ctx), err)
	case err == nil && keep && s.put(p):
		return nil
	}
	p.conn.Close()
	if err != nil {
		err = fmt.Errorf("%s: %w", s.url, err)
	}
	return err
}

// put reports false after close.
func (s *posts) put(p *post) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.idle = append(s.idle, p)
	}
	return !s.closed
}

func (s *posts) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for p := s.take(); p != nil; p = s.take() {
		p.conn.Close()
	}
}

type post struct {
	conn net.Conn
	r    *bufio.Reader
	out  []byte
	used bool // something was answered
}

// errStale: the server has closed a connection before it answered a further request.
var errStale = errors.New("the server has closed the connection")

// exchange reports whether the connection stays open.
func (p *post) exchange() (keep bool, err error) {
	if _, err = p.conn.Write(p.out); err == nil {
		_, err = p.r.Peek(1)
	}
	if err != nil && p.used {
		return false, errors.Join(errStale, err)
	}
	if err != nil {
		return false, err
	}
	p.used = true
	line, err := p.r.ReadSlice('\n')
	if err != nil {
		return false, err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 204 ")) {
		_, status, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		return false, fmt.Errorf("HTTP status %s instead of %d", status, http.StatusNoContent)
	}
	for keep = true; ; {
		if line, err = p.r.ReadSlice('\n'); err != nil {
			return false, err
		}
		switch line = bytes.ToLower(bytes.TrimSpace(line)); {
		case len(line) == 0:
			return keep, nil
		case bytes.HasPrefix(line, []byte("connection:")) && bytes.Contains(line, []byte("close")):
			keep = false
		}
	}
}
