// Package wtlink lets the client for Go connect over WebTransport. It is in the module of that transport, because it needs a QUIC
// stack, which package client does without.
//
//	c, err := client.NewOver(httplink.Fallback(nil,
//		wtlink.WebTransport("https://example.com/connection/webtransport"),
//		client.WebSocket("wss://example.com/connection/websocket"),
//	), client.Options{Token: token})
package wtlink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	wt "github.com/quic-go/webtransport-go"

	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/internal/wsclient"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/webtransport/internal/udp"
)

// WebTransport is the transport of an endpoint, such as https://example.com/connection/webtransport. Each connection is
// one of QUIC, with a session of one stream. Of client.Options it heeds Encoding, Header, TLS and MessageLimit. There
// are no proxies for UDP: with DialContext the error wraps errors.ErrUnsupported, so that a fallback leaves it out, and
// HTTPS_PROXY is not used.
func WebTransport(endpoint string) client.Transport {
	return func(o *client.Options) (client.Dialer, error) {
		u, err := url.Parse(endpoint)
		switch {
		case err != nil:
			return client.Dialer{}, fmt.Errorf("wtlink: endpoint: %w", err)
		case u.Scheme != "https" || u.Host == "":
			return client.Dialer{}, fmt.Errorf("wtlink: endpoint: %q is no URL of a server: it has to begin with https://", endpoint)
		case o.DialContext != nil:
			return client.Dialer{}, fmt.Errorf("client: Options.DialContext: WebTransport goes over UDP: %w", errors.ErrUnsupported)
		}
		d := &dialer{binary: o.Encoding == protocol.Protobuf, header: o.Header, limit: o.MessageLimit, tls: new(tls.Config)}
		if o.TLS != nil {
			d.tls = o.TLS.Clone()
		}
		d.tls.NextProtos = []string{http3.NextProtoH3}
		if u.Port() == "" {
			u.Host += ":443"
		}
		if d.binary {
			query := u.Query()
			query.Set("cf_protocol", "protobuf")
			u.RawQuery = query.Encode()
		}
		d.url = u.String()
		udp.Hush() // packets that are lost come again
		return client.Dialer{Name: func() string { return "webtransport" }, Dial: d.dial}, nil
	}
}

type dialer struct {
	url    string
	binary bool // Protobuf
	header http.Header
	limit  int // of a message, in bytes
	tls    *tls.Config
}

func (d *dialer) dial(ctx context.Context) (client.Conn, error) {
	c := &conn{binary: d.binary, limit: d.limit}
	t := &wt.Transport{
		TLSClientConfig: d.tls,
		QUICConfig:      &quic.Config{EnableDatagrams: true, EnableStreamResetPartialDelivery: true},
		DialAddr: func(ctx context.Context, addr string, t *tls.Config, q *quic.Config) (*quic.Conn, error) {
			var err error
			c.quic, err = quic.DialAddr(ctx, addr, t, q)
			return c.quic, err
		},
	}
	res, session, err := t.Dial(ctx, d.url, d.header) //nolint:bodyclose // the session ends the stream
	switch {
	case err == nil:
	case res != nil && (res.StatusCode < 200 || res.StatusCode > 299):
		return nil, &wsclient.StatusError{Status: res.StatusCode}
	default:
		return nil, err
	}
	c.session = session
	if c.stream, err = session.OpenStreamSync(ctx); err != nil {
		c.Cut()
		return nil, err
	}
	return c, nil
}

type conn struct {
	quic    *quic.Conn
	session *wt.Session
	stream  *wt.Stream
	binary  bool
	limit   int

	mu  sync.Mutex // orders writes
	buf []byte
}

const maxReused = 8 << 10

// Write sends a frame. In JSON each message is a line.
func (c *conn) Write(frame []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.binary {
		frame = append(append(c.buf[:0], frame...), '\n')
		if c.buf = frame; cap(frame) > maxReused {
			c.buf = nil
		}
	}
	_, err := c.stream.Write(frame)
	if err != nil {
		c.Cut()
	}
	return err
}

var errEnd = errors.New("the server has ended the stream")

// Read calls handle with the messages of the stream.
func (c *conn) Read(handle func([]byte) error) error {
	defer c.Cut()
	r := wsclient.NewStreamReader(c.stream, c.limit)
	next := r.Line
	if c.binary {
		next = r.Delimited
	}
	for {
		message, err := next()
		switch {
		case err != nil:
			return why(err)
		case len(message) == 0: // an empty line
		default:
			if err := handle(message); err != nil {
				return err
			}
		}
	}
}

// why is the end of a connection, with the code of the server if there is one.
func why(err error) error {
	var session *wt.SessionError
	switch {
	case errors.As(err, &session) && session.Remote:
		return &wsclient.CloseError{Code: uint32(session.ErrorCode), Reason: session.Message}
	case errors.Is(err, io.EOF):
		return errEnd
	}
	return err
}

// Close ends the session and tells the server why.
func (c *conn) Close(code uint16, reason string) {
	_ = c.session.CloseWithError(wt.SessionErrorCode(code), reason) // the connection may be gone
	c.Cut()
}

// Cut ends the connection at once.
func (c *conn) Cut() {
	_ = c.quic.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "") // it may be gone
}
