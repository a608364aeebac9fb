package wire

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

// dialStream sends the request of an HTTP stream and reads the head of the response.
func (t *Dialer) dialStream(ctx context.Context, first []*protocol.Command, hello []byte) (*Conn, error) {
	req, err := t.streamRequest(hello)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := t.dialTCP(limited, req.URL)
	if err != nil {
		return nil, fmt.Errorf("%s: %w%s", t.URL, err, dialHint(err))
	}
	_ = conn.SetDeadline(time.Now().Add(connectTimeout)) // a closed connection shows at once
	stop := context.AfterFunc(limited, func() { conn.Close() })
	h, early, err := exchange(conn, req)
	if !stop() {
		err = errors.Join(context.Cause(limited), err)
	}
	if err == nil && h.status != http.StatusOK {
		err = fmt.Errorf("the server answers with HTTP status %d%s", h.status, statusHint(h.status, t.Kind))
	}
	var p *polls
	if err == nil && t.Kind.polls {
		p, err = newPolls(conn, req, first[0].Connect, h.length)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w%s", t.URL, err, pollHint(err, t.Kind))
	}
	c := &Conn{conn: conn, codec: codec.ForClient(t.Encoding), held: early, polls: p}
	if p == nil {
		c.body = &body{chunked: h.chunked, events: t.Kind.events, encoding: t.Encoding}
	}
	if t.Kind.Emulated() {
		posts, err := t.poster()
		if err != nil {
			conn.Close()
			return nil, err
		}
		c.life, c.end = context.WithCancelCause(context.Background())
		c.back = &requests{posts: posts, codec: c.codec}
	}
	c.attach()
	return c, nil
}

// streamRequest returns the request that opens a stream: as browsers send it.
func (t *Dialer) streamRequest(hello []byte) (*http.Request, error) {
	u, err := url.Parse(t.URL)
	if err != nil {
		return nil, err
	}
	method, body := http.MethodPost, hello
	if t.Kind.events {
		q := u.Query()
		q.Set("cf_connect", string(hello))
		u.RawQuery = q.Encode()
		method, body = http.MethodGet, nil
	}
	req, err := http.NewRequest(method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = t.Header.Clone()
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	if t.Kind.events {
		req.Header.Set("Accept", "text/event-stream")
	} else {
		req.Header.Set("Content-Type", contentType(t.Encoding))
	}
	return req, nil
}

// dialTCP connects to the host of u, with TLS for https.
func (t *Dialer) dialTCP(ctx context.Context, u *url.URL) (net.Conn, error) {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	dial := sockets(local(t.URL, t.dialed.Add(1)))
	conn, err := dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil || u.Scheme != "https" {
		return conn, err
	}
	cfg := &tls.Config{}
	if t.TLS != nil {
		cfg = t.TLS.Clone()
	}
	if cfg.ServerName == "" {
		cfg.ServerName = u.Hostname()
	}
	secure := tls.Client(conn, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

// maxHead bounds the head of a response, in bytes.
const maxHead = 64 << 10

// head is the head of a response.
type head struct {
	status  int
	chunked bool
	length  int64 // of the body; -1 if the head does not tell
}

// exchange sends a request, and returns the head of the response and what came behind it.
func exchange(conn net.Conn, req *http.Request) (head, []byte, error) {
	if err := req.Write(conn); err != nil {
		return head{}, nil, err
	}
	var data []byte
	for {
		if end := bytes.Index(data, []byte("\r\n\r\n")) + 4; end >= 4 {
			res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(data[:end])), req)
			if err != nil {
				return head{}, nil, err
			}
			defer res.Body.Close() // it has nothing: Serve reads the body
			return head{res.StatusCode, slices.Contains(res.TransferEncoding, "chunked"), res.ContentLength}, data[end:], nil
		}
		if len(data) >= maxHead {
			return head{}, nil, fmt.Errorf("the head of the response has more than %d bytes", maxHead)
		}
		data = slices.Grow(data, 1024)
		n, err := conn.Read(data[len(data):cap(data)])
		if data = data[:len(data)+n]; n == 0 && err != nil {
			return head{}, nil, fmt.Errorf("no response: %w", err)
		}
	}
}

// statusHint explains the status of an endpoint that is off.
func statusHint(status int, k Kind) string {
	if status == http.StatusNotFound {
		return fmt.Sprintf(" (the server needs %s.enabled, and --url the path of that endpoint)", k.Name)
	}
	return ""
}

// poster returns what sends the requests of emulated kinds.
func (t *Dialer) poster() (*posts, error) {
	t.post.once.Do(func() {
		var u *url.URL
		if u, t.post.err = url.Parse(t.Emulation); t.post.err == nil {
			t.post.posts = newPosts(u, t.dialTCP)
		}
	})
	return t.post.posts, t.post.err
}

// Close closes the idle connections of requests.
func (t *Dialer) Close() {
	if posts, err := t.poster(); err == nil {
		posts.close()
	}
}
