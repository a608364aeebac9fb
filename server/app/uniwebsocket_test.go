package app

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"

	"github.com/gyrohq/gyro/server/config"
)

const uniWebSocketPath = "/connection/uni_websocket"

// uniWebSocket is the client's end of a one-way WebSocket connection.
type uniWebSocket struct {
	t    *testing.T
	conn net.Conn
	in   io.Reader // conn, with what came behind the handshake
}

// dialUniWebSocket opens a connection; query is raw.
func dialUniWebSocket(s *testServer, query string) *uniWebSocket {
	s.t.Helper()
	d := ws.Dialer{Header: ws.HandshakeHeaderHTTP(userHeader)}
	conn, early, _, err := d.Dial(s.t.Context(), "ws://"+s.app.Addr("external")+uniWebSocketPath+query)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if early != nil {
		return &uniWebSocket{s.t, conn, early}
	}
	return &uniWebSocket{s.t, conn, conn}
}

// openUniWebSocket sends the request as the first message.
func openUniWebSocket(s *testServer, request string) oneWay {
	s.t.Helper()
	c := dialUniWebSocket(s, "")
	c.send(request)
	return c
}

func (c *uniWebSocket) send(text string) {
	c.t.Helper()
	if err := wsutil.WriteClientText(c.conn, []byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

// next answers native pings, as all WebSocket clients do, and the Close frame.
func (c *uniWebSocket) next() string {
	c.t.Helper()
	if code, text := c.read(); code == 0 {
		return text
	}
	return "end"
}

// read returns the next push, or the code and the reason of the Close frame.
func (c *uniWebSocket) read() (code ws.StatusCode, text string) {
	c.t.Helper()
	data, err := wsutil.ReadServerText(struct {
		io.Reader
		io.Writer
	}{c.in, c.conn})
	var closed wsutil.ClosedError
	switch {
	case errors.As(err, &closed):
		return closed.Code, closed.Reason
	case err != nil:
		c.t.Fatal(err)
	}
	return 0, string(data)
}

// TestUniWebSocketQuery: the connect request may be in the address, which the log does not show.
func TestUniWebSocketQuery(t *testing.T) {
	t.Parallel()
	onBothDrivers(t, everyOneWay, func(t *testing.T, s *testServer) {
		c := dialUniWebSocket(s, "?cf_connect="+url.QueryEscape("{"+s.tokenField(map[string]any{"sub": "u"})+"}"))
		connected(t, c)
		c.send("whatever")
		c.send(`{"token":"another"}`)
		s.api("disconnect", `{"user":"u"}`)
		wantNext(t, c, `{"disconnect":{"code":3503,"reason":"force disconnect"}}`)
		if code, reason := c.read(); code != 3503 || reason != "force disconnect" {
			t.Errorf("closed with %d %s", code, reason)
		}
		status, body := get(t, s.url(uniWebSocketPath))
		if status != 400 {
			t.Errorf("no handshake: %d %s", status, body)
		}
	})
}

// TestUniWebSocketFirstMessage: one that is no connect request gets a Close frame alone.
func TestUniWebSocketFirstMessage(t *testing.T) {
	t.Parallel()
	onBothDrivers(t, everyOneWay, func(t *testing.T, s *testServer) {
		for _, text := range []string{"{", "[]", "no JSON"} {
			c := dialUniWebSocket(s, "")
			c.send(text)
			if code, reason := c.read(); code != 3501 || reason != "bad request" {
				t.Errorf("%s: %d %s", text, code, reason)
			}
		}
	})
}

// TestUniWebSocketOptions: how pushes are framed, and how connections end.
func TestUniWebSocketOptions(t *testing.T) {
	t.Parallel()
	edit := func(cfg *config.Config) {
		everyOneWay(cfg)
		cfg.UniWebSocket.DisableDisconnectPush, cfg.UniWebSocket.JoinPushMessages = true, true
		cfg.UniWebSocket.Compression = true
	}
	onBothDrivers(t, edit, func(t *testing.T, s *testServer) {
		c := dialUniWebSocket(s, "?cf_connect="+url.QueryEscape(`{"subs":{"a":{}}}`))
		connected(t, c)
		const messages = 50
		commands := make([]string, messages)
		for n := range commands {
			commands[n] = fmt.Sprintf(`{"publish":{"channel":"a","data":%d}}`, n)
		}
		s.api("batch", `{"commands":[`+strings.Join(commands, ",")+`]}`)
		var got []string
		frames := 0
		for len(got) < messages {
			got = append(got, strings.Split(c.next(), "\n")...)
			frames++
		}
		for n, push := range got {
			if want := fmt.Sprintf(`{"channel":"a","pub":{"data":%d}}`, n); push != want {
				t.Fatalf("got %s, want %s", push, want)
			}
		}
		if frames == messages {
			t.Errorf("%d frames for %d pushes", frames, messages)
		}
		if err := s.app.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if code, reason := c.read(); code != 3001 {
			t.Errorf("closed with %d %s", code, reason)
		}
	})
}

// TestUniWebSocketOrigin: limits and origins hold as for other WebSocket clients.
func TestUniWebSocketOrigin(t *testing.T) {
	t.Parallel()
	edit := func(cfg *config.Config) {
		everyOneWay(cfg)
		cfg.Client.ConnectionLimit = 1
		cfg.Client.AllowedOrigins = []string{"https://app.example"}
	}
	onBothDrivers(t, edit, func(t *testing.T, s *testServer) {
		dial := func(origin string) int {
			d := ws.Dialer{Header: ws.HandshakeHeaderHTTP{"Origin": {origin}}}
			conn, _, _, err := d.Dial(t.Context(), "ws://"+s.app.Addr("external")+uniWebSocketPath)
			if status := ws.StatusError(0); errors.As(err, &status) {
				return int(status)
			}
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
			return 101
		}
		if status := dial("https://evil.example"); status != 403 {
			t.Errorf("foreign origin: %d", status)
		}
		if status := dial("https://app.example"); status != 101 {
			t.Errorf("allowed origin: %d", status)
		}
		connected(t, openUniWebSocket(s, `{}`))
		if status := dial("https://app.example"); status != 503 {
			t.Errorf("above the limit: %d", status)
		}
	})
}
