// Package wire speaks the JSON messages of the client protocol over WebSocket, for tests with thousands of clients.
// Tests see everything that a server sends, while package client leaves out repeated publications.
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

	"github.com/gyrohq/gyro/internal/wsclient"
)

// ErrProtocol is wrapped by errors about messages that no server may send.
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

var transport = &http.Transport{DialContext: dial, DisableKeepAlives: true, ReadBufferSize: 1 << 10, WriteBufferSize: 1 << 10}

func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var dialer net.Dialer
	if runtime.GOOS == "linux" {
		// The kernel's search for a free port takes long when thousands of an address are in use.
		dialer.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+rand.N(200)))}
	}
	return dialer.DialContext(ctx, network, addr)
}

// Dial connects to path at addr, host:port, without a goroutine: one reads, another may send.
func Dial(ctx context.Context, addr, path string) (*wsclient.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return (&wsclient.Dialer{URL: "http://" + addr + path, Limit: maxMessage, Transport: transport}).Dial(ctx)
}

// Messages reads one WebSocket message, answers the protocol's pings in it, and calls take with each other message. It
// waits for timeout at most.
func Messages[T any](c *wsclient.Conn, timeout time.Duration, take func(*T) error) error {
	frame, err := next(c, timeout)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(frame)) {
		if strings.TrimSpace(line) == "{}" {
			if err := Send(c, []byte("{}")); err != nil {
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
func Send(c *wsclient.Conn, text []byte) error {
	defer time.AfterFunc(Timeout, c.Cut).Stop()
	return c.Write(text)
}

func next(c *wsclient.Conn, timeout time.Duration) ([]byte, error) {
	late := time.AfterFunc(timeout, c.Cut)
	message, err := c.Next()
	switch {
	case !late.Stop() && err != nil:
		return nil, fmt.Errorf("nothing came for %s: %w", timeout, err)
	case errors.As(err, new(*wsclient.RuleError)), errors.Is(err, wsclient.ErrTooBig):
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return message, err
}
