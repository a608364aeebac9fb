// Package wire speaks the JSON messages of the client protocol over WebSocket, for tests with thousands of clients. It decides
// nothing, unlike package client, which leaves out what a server sends twice, so tests see everything that a server sends.
package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/gyrohq/gyro/internal/socket"
)

// Conn is a WebSocket connection. It has no goroutine. One goroutine reads, another may send.
type Conn struct{ socket *socket.Conn }

// Closed is the error of a connection that the server ended by a close frame.
type Closed struct {
	Code   int
	Reason string
}

func (c *Closed) Error() string { return fmt.Sprintf("closed with code %d %q", c.Code, c.Reason) }

// Terminal tells whether an SDK would not connect again.
func (c *Closed) Terminal() bool { return 3500 <= c.Code && c.Code < 4000 || c.Code >= 4500 }

// ErrProtocol is wrapped by errors of what a server must not send.
var ErrProtocol = errors.New("broken protocol")

// Timeout bounds connecting, and sending a message.
const Timeout = 5 * time.Second

// Sleep lasts until d has passed or ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

const maxMessage = 64 << 20

// Over returns a connection whose handshake has been made.
func Over(conn net.Conn) *Conn { return &Conn{socket.Over(conn, false, maxMessage)} }

// transport makes the requests of handshakes.
var transport = &http.Transport{DialContext: dial, DisableKeepAlives: true, ReadBufferSize: 1 << 10, WriteBufferSize: 1 << 10}

func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var dialer net.Dialer
	if runtime.GOOS == "linux" {
		// The kernel's search for a free port takes long when thousands of an address are in use.
		dialer.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+rand.N(200)))}
	}
	return dialer.DialContext(ctx, network, addr)
}

// Dial connects to path at addr, host:port.
func Dial(ctx context.Context, addr, path string) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	c, err := (&socket.Dialer{URL: "http://" + addr + path, Limit: maxMessage, Transport: transport}).Dial(ctx)
	if err != nil {
		return nil, err
	}
	return &Conn{c}, nil
}

// Messages reads one WebSocket message, answers the protocol's pings in it, decodes the other messages of the protocol, and
// calls take with each. It waits for timeout at most.
func Messages[T any](w *Conn, timeout time.Duration, take func(*T) error) error {
	frame, err := w.read(timeout)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(frame)) {
		if strings.TrimSpace(line) == "{}" {
			if err := w.Send([]byte("{}")); err != nil {
				return err
			}
			continue
		}
		var m T
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			return fmt.Errorf("%w: %w in %s", ErrProtocol, err, line)
		}
		if err := take(&m); err != nil {
			return err
		}
	}
	return nil
}

// Send sends a message of the protocol.
func (w *Conn) Send(text []byte) error {
	defer time.AfterFunc(Timeout, w.Close).Stop()
	return w.socket.Write(text)
}

// Close ends the connection without a close frame.
func (w *Conn) Close() { w.socket.Cut() }

// read returns the next message, which is valid until the next call.
func (w *Conn) read(timeout time.Duration) ([]byte, error) {
	late := time.AfterFunc(timeout, w.Close)
	message, err := w.socket.Next()
	var closed *socket.CloseError
	switch {
	case !late.Stop() && err != nil:
		return nil, fmt.Errorf("nothing came for %s: %w", timeout, err)
	case errors.As(err, &closed):
		return nil, &Closed{int(closed.Code), closed.Reason}
	case errors.As(err, new(*socket.RuleError)), errors.Is(err, socket.ErrTooBig):
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return message, err
}
