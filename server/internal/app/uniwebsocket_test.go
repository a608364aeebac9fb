package app

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/server/internal/config"
)

const uniWebSocketPath = "/connection/uni_websocket"

// uniWebSocket is the client's end of a one-way WebSocket connection.
type uniWebSocket struct{ *wstest.Texts }

// dialUniWebSocket opens a connection; query is raw.
func dialUniWebSocket(s *testServer, query string) uniWebSocket {
	s.t.Helper()
	return uniWebSocket{wstest.DialTexts(s.t, s.url(uniWebSocketPath+query), userHeader)}
}

// openUniWebSocket sends the request as the first message.
func openUniWebSocket(s *testServer, request string) oneWay {
	s.t.Helper()
	c := dialUniWebSocket(s, "")
	c.Send(request)
	return c
}

// next answers native pings, as all WebSocket clients do, and the Close frame.
func (c uniWebSocket) next() string {
	if text, code, _ := c.Next(); code == 0 {
		return text
	}
	return "end"
}

// TestUniWebSocketQuery: the connect request may be in the address, which the log does not show.
func TestUniWebSocketQuery(t *testing.T) {
	t.Parallel()
	onBothDrivers(t, everyOneWay, func(t *testing.T, s *testServer) {
		c := dialUniWebSocket(s, "?cf_connect="+url.QueryEscape("{"+s.tokenField(map[string]any{"sub": "u"})+"}"))
		connected(t, c)
		c.Send("whatever")
		c.Send(`{"token":"another"}`)
		s.api("disconnect", `{"user":"u"}`)
		wantNext(t, c, `{"disconnect":{"code":3503,"reason":"force disconnect"}}`)
		if _, code, reason := c.Next(); code != 3503 || reason != "force disconnect" {
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
			c.Send(text)
			if _, code, reason := c.Next(); code != 3501 || reason != "bad request" {
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
		if _, code, reason := c.Next(); code != 3001 {
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
			c, status := wstest.Handshake(t, s.url(uniWebSocketPath), http.Header{"Origin": {origin}})
			if c != nil {
				c.Vanish()
			}
			return status
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
