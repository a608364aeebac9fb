package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	wsclient "github.com/coder/websocket"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/websocket"
)

// echoAcceptor makes peers that send every message back in their framer's form.
type echoAcceptor struct{ closed chan error }

type echoPeer struct {
	conn   transport.Conn
	framer transport.Framer
	closed chan error
	queue  [][]byte // guarded by the transport: it calls one method at a time
}

func (a *echoAcceptor) Accept(_ context.Context, c transport.Conn, info transport.Info) (transport.Peer, error) {
	return &echoPeer{conn: c, framer: info.Framer, closed: a.closed}, nil
}

func (p *echoPeer) Receive(msg []byte) {
	if string(msg) == "quit" {
		p.conn.Close(protocol.DisconnectForceNoReconnect, p.queue)
		return
	}
	p.queue = append(p.queue, p.framer.Frame(append(make([]byte, p.framer.Headroom()), msg...)))
	p.Writable()
}

func (p *echoPeer) Writable() {
	n, err := p.conn.Write(p.queue)
	for err == nil && len(p.queue) > 0 && n >= len(p.queue[0]) {
		n -= len(p.queue[0])
		p.queue = p.queue[1:]
	}
	if n > 0 {
		p.queue[0] = p.queue[0][n:]
	}
}

func (p *echoPeer) Closed(err error) { p.closed <- err }

// TestWebSocketInterop speaks to the transport with an independent client, with every compression that it knows.
func TestWebSocketInterop(t *testing.T) {
	for _, compression := range []bool{false, true} {
		for name, mode := range map[string]wsclient.CompressionMode{
			"disabled":            wsclient.CompressionDisabled,
			"no context takeover": wsclient.CompressionNoContextTakeover,
			"context takeover":    wsclient.CompressionContextTakeover,
		} {
			for _, protobuf := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%s/protobuf=%v", compression, name, protobuf), func(t *testing.T) {
					a := &echoAcceptor{closed: make(chan error, 1)}
					s := httptest.NewServer(websocket.NewHandler(a, websocket.Config{
						Compression: compression, CompressionMinSize: 100, MessageSizeLimit: 1 << 20,
					}))
					defer s.Close()
					opts := &wsclient.DialOptions{CompressionMode: mode, CompressionThreshold: 1}
					kind := wsclient.MessageText
					if protobuf {
						opts.Subprotocols = []string{"centrifuge-protobuf"}
						kind = wsclient.MessageBinary
					}
					interop(t, s.URL, opts, kind)
					select {
					case <-a.closed:
					case <-time.After(wait.Limit):
						t.Error("the connection did not end")
					}
				})
			}
		}
	}
}

func interop(t *testing.T, url string, opts *wsclient.DialOptions, kind wsclient.MessageType) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, _, err := wsclient.Dial(ctx, url, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	c.SetReadLimit(1 << 20)
	for _, size := range []int{0, 1, 99, 100, 125, 126, 5000, 65535, 65536, 300000} {
		want := []byte(strings.Repeat("gyro says hello; ", size/17+1)[:size])
		if err := c.Write(ctx, kind, want); err != nil {
			t.Fatal(err)
		}
		got, msg, err := c.Read(ctx)
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if got != kind || !bytes.Equal(msg, want) {
			t.Fatalf("%d bytes came back as %v of %d", size, got, len(msg))
		}
	}
	// Only a reader sees the pong.
	read := make(chan error, 1)
	go func() {
		_, _, err := c.Read(ctx)
		read <- err
	}()
	if err := c.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Write(ctx, kind, []byte("after ping")); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	if err := c.Write(ctx, kind, []byte("quit")); err != nil {
		t.Fatal(err)
	}
	_, _, err = c.Read(ctx)
	if code := wsclient.CloseStatus(err); code != 3503 || !strings.Contains(err.Error(), "force disconnect") {
		t.Errorf("closed with %v", err)
	}
}
