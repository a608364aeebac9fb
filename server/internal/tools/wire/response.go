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

func (t *Dialer) dialStream(ctx context.Context, first []*protocol.Command, hello []byte) (*Conn, error) {
	req, err := t.streamRequest(hello)
	if err != nil {
		return nil, err
	}
	var request bytes.Buffer
	if err := req.Write(&request); err != nil {
		return nil, err
	}
	var res *http.Response
	conn, early, err := t.exchange(ctx, req.URL, request.Bytes(), func(data []byte) (size int, err error) {
		if size = bytes.Index(data, []byte("\r\n\r\n")) + 4; size < 4 {
			return 0, nil
		}
		res, err = http.ReadResponse(bufio.NewReader(bytes.NewReader(data[:size])), req) //nolint:bodyclose // the linter does not see Close below
		if err == nil {
			res.Body.Close() // it has nothing: Serve reads the body
		}
		return size, err
	})
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		err = fmt.Errorf("the server answers with HTTP status %d%s", res.StatusCode, statusHint(res.StatusCode, t.Kind))
	}
	var p *polls
	if err == nil && t.Kind.polls {
		p, err = newPolls(conn, req, first[0].Connect, res.ContentLength)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", t.URL, err)
	}
	c := &Conn{conn: conn, codec: codec.ForClient(t.Encoding), held: early, polls: p}
	if p == nil {
		c.body = &body{chunked: slices.Contains(res.TransferEncoding, "chunked"), events: t.Kind.events, encoding: t.Encoding}
	}
	if t.Kind.Emulated() {
		posts, err := t.poster()
		if err != nil {
			conn.Close()
			return nil, err
		}
		c.life, c.end = context.WithCancelCause(context.Background())
		c.back = &requests{posts: posts, codec: c.codec, timeout: t.timeout()}
	}
	c.attach()
	return c, nil
}

// streamRequest is as browsers send it.
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

// exchange connects, sends a request, and returns the bytes behind the head of the response. parse returns the size of
// the head, or 0 if it is not complete.
func (t *Dialer) exchange(ctx context.Context, u *url.URL, request []byte, parse func(data []byte) (int, error)) (net.Conn, []byte, error) {
	limited, cancel := context.WithTimeout(ctx, t.timeout())
	defer cancel()
	conn, err := t.dialTCP(limited, u)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w%s", t.URL, err, dialHint(err))
	}
	_ = conn.SetDeadline(time.Now().Add(t.timeout())) // a closed connection shows at once
	stop := context.AfterFunc(limited, func() { conn.Close() })
	early, err := exchange(conn, request, parse)
	if !stop() {
		err = errors.Join(context.Cause(limited), err)
	}
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("%s: %w%s", t.URL, err, pollHint(err, t.Kind))
	}
	return conn, early, nil
}

func exchange(conn net.Conn, request []byte, parse func(data []byte) (int, error)) (early []byte, err error) {
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	buf := writeBuffers.Get().(*[]byte)
	defer writeBuffers.Put(buf)
	for data := (*buf)[:0]; ; {
		switch size, err := parse(data); {
		case err != nil:
			return nil, err
		case size > 0:
			return bytes.Clone(data[size:]), nil
		}
		if len(data) >= maxHead {
			return nil, fmt.Errorf("the head of the response has more than %d bytes", maxHead)
		}
		data = slices.Grow(data, 512)
		*buf = data
		n, err := conn.Read(data[len(data):cap(data)])
		if data = data[:len(data)+n]; n == 0 && err != nil {
			return nil, fmt.Errorf("no response: %w", err)
		}
	}
}

func (t *Dialer) dialTCP(ctx context.Context, u *url.URL) (net.Conn, error) {
	secure, port := u.Scheme == "https" || u.Scheme == "wss", u.Port()
	switch {
	case port == "" && secure:
		port = "443"
	case port == "":
		port = "80"
	}
	dial := sockets(local(t.URL, t.dialed.Add(1)))
	conn, err := dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil || !secure {
		return conn, err
	}
	cfg := &tls.Config{}
	if t.TLS != nil {
		cfg = t.TLS.Clone()
	}
	if cfg.ServerName == "" {
		cfg.ServerName = u.Hostname()
	}
	encrypted := tls.Client(conn, cfg)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return encrypted, nil
}

const maxHead = 64 << 10

// statusHint explains the status of an endpoint that is off.
func statusHint(status int, k Kind) string {
	if status == http.StatusNotFound {
		return fmt.Sprintf(" (the server needs %s.enabled, and --url the path of that endpoint)", k.Name)
	}
	return ""
}

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
