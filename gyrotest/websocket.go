package gyrotest

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/internal/wsclient"
	"github.com/gyrohq/gyro/protocol"
)

const maxMessage = 64 << 20

// Dial opens a WebSocket connection to an address with ws, wss, http or https. The test fails if the server refuses;
// Handshake is for tests that expect that.
func Dial(tb testing.TB, address string, o *Options) *Client {
	tb.Helper()
	c, status, body := Handshake(tb, address, o)
	if c == nil {
		tb.Fatalf("gyrotest: %s answers with status %d: %s", address, status, body)
	}
	return c
}

// Handshake is Dial for a server that may refuse. Then the client is nil, and the HTTP status and up to 64 KiB of the
// body tell why.
func Handshake(tb testing.TB, address string, o *Options) (c *Client, status int, body string) {
	tb.Helper()
	options := orZero(o)
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatalf("gyrotest: %v", err)
	}
	if secure, ok := strings.CutPrefix(u.Scheme, "ws"); ok {
		u.Scheme = "http" + secure
	}
	if options.Encoding == protocol.Protobuf {
		query := u.Query()
		query.Set("cf_protocol", "protobuf")
		u.RawQuery = query.Encode()
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(options.Timeout, defaultTimeout))
	defer cancel()
	handshake := handshake(options)
	defer handshake.CloseIdleConnections()
	d := &wsclient.Dialer{URL: u.String(), Header: options.Header, Binary: options.Encoding == protocol.Protobuf, Limit: maxMessage, Transport: handshake}
	s, err := d.Dial(ctx)
	var refused *wsclient.StatusError
	switch {
	case errors.As(err, &refused):
		return nil, refused.Status, refused.Body
	case err != nil:
		tb.Fatalf("gyrotest: handshake with %s: %v", address, err)
	}
	return over(tb, options, s), http.StatusSwitchingProtocols, ""
}

func handshake(o Options) *http.Transport {
	t := &http.Transport{DialContext: o.DialContext, DialTLSContext: o.DialContext, DisableCompression: true}
	if o.DialContext == nil {
		// No authority has signed the certificate of a test's server.
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	}
	return t
}

// Over returns a client of a WebSocket connection that is open already, for example one over HTTP/2.
func Over(tb testing.TB, conn io.ReadWriteCloser, o *Options) *Client {
	tb.Helper()
	options := orZero(o)
	return over(tb, options, wsclient.Over(conn, options.Encoding == protocol.Protobuf, maxMessage))
}

func over(tb testing.TB, o Options, s *wsclient.Conn) *Client {
	c := newClient(tb, o, webSocket{s})
	go func() {
		err := s.Read(func(message []byte) error {
			c.received(message)
			return nil
		})
		var closed *wsclient.CloseError
		switch {
		case errors.As(err, &closed) && closed.Code != wsclient.StatusNone:
			c.finish(protocol.Disconnect{Code: closed.Code, Reason: closed.Reason})
			return
		case errors.Is(err, wsclient.ErrTooBig), errors.As(err, new(*wsclient.RuleError)):
			c.fail(fmt.Errorf("gyrotest: %w", err))
		}
		c.finish(protocol.Disconnect{})
	}()
	return c
}

// If webSocket cannot send a message, reading fails as well.
type webSocket struct{ *wsclient.Conn }

func (s webSocket) send(msg []byte) { _ = s.Write(msg) }
func (s webSocket) drop()           { s.Cut() }
