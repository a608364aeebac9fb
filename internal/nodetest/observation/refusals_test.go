package observation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/transport/websocket"
)

// picky are handlers that refuse and fail.
var picky = gyro.Handlers{
	Connecting: func(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
		switch e.Token {
		case "":
			return gyro.ConnectReply{}, nil
		case "bad":
			return gyro.ConnectReply{}, refusal.Because(gyro.DisconnectInvalidToken, "users.file", "no such user")
		case "old":
			return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "u", ExpireAt: time.Unix(1, 0)}}, nil
		}
		return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: e.Token}}, nil
	},
	Subscribe: func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
		switch e.Channel {
		case "denied":
			return gyro.SubscribeReply{}, gyro.ErrorPermissionDenied
		case "own":
			return gyro.SubscribeReply{}, &gyro.Error{Code: 1000, Message: "not today"}
		case "expired":
			return gyro.SubscribeReply{Options: gyro.SubscribeOptions{ExpireAt: time.Unix(1, 0)}}, nil
		}
		return gyro.SubscribeReply{}, nil
	},
	History: func(context.Context, *gyro.Client, gyro.HistoryEvent) (gyro.HistoryReply, error) {
		return gyro.HistoryReply{}, errors.New("no disk")
	},
	RPC: func(_ context.Context, _ *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
		return nil, errors.New("no database")
	},
}

// Everything that a node refuses, and every failure of a handler, leaves a line with the
// client, its user, the channel, the reason, and what the program can change.
func TestRefusalsAreExplained(t *testing.T) {
	const token = `"token":"u"`
	const none = "neither the Connecting handler nor the context of the request (gyro.SetCredentials) has credentials"
	for _, tt := range []struct {
		connect, command string // a command that begins with { is sent as it is
		outcome          string
		line             string // without client=ID behind the message, where there is one
	}{
		{``, ``, "disconnect 3501", `level=INFO msg="connect refused" CLIENT addr=192.0.2.1:1234 code=3501 reason="` + none + `" key=Handlers.Connecting`},
		{`"token":"bad"`, ``, "disconnect 3500", `level=INFO msg="connect refused" CLIENT addr=192.0.2.1:1234 code=3500 reason="no such user" key=users.file`},
		{`"token":"old"`, ``, "error 110", `level=INFO msg="connect refused" CLIENT user=u addr=192.0.2.1:1234 code=110 reason="the client's credentials have expired"`},
		{"none", `{`, "disconnect 3501", `level=INFO msg="command refused" CLIENT code=3501 reason="the message is malformed: JSON: offset 1: `},
		{"none", `{"id":1,"publish":{}}`, "disconnect 3501", `level=INFO msg="command refused" CLIENT code=3501 reason="the first command is not a connect command with an id"`},
		{token, `{"id":9,"connect":{}}`, "disconnect 3501", `level=INFO msg="command refused" CLIENT user=u code=3501 reason="a second connect command, or a command without an id"`},
		{token, `{"id":9}`, "disconnect 3501", `reason="the command has no method that clients may use"`},
		{token, `{}`, "disconnect 3501", `reason="an empty command, which is a pong, without a ping before it"`},
		{token, `"subscribe":{}`, "disconnect 3501", `reason="the command names no channel"`},
		{token, `"subscribe":{"channel":"a","delta":"x"}`, "disconnect 3501", `channel=a code=3501 reason="the delta type is not fossil"`},
		{token, `"subscribe":{"channel":"twice"}`, "error 105", `channel=twice code=105 reason="the client is already subscribed to the channel, or about to be"`},
		{token, `"subscribe":{"channel":"a","tf":{"key":"k","cmp":"eq","val":"v"}}`, "error 107",
			`channel=a code=107 reason="the subscription may not have a tags filter" key=SubscribeOptions.AllowTagsFilter`},
		{token, `"subscribe":{"channel":"expired"}`, "error 110", `channel=expired code=110 reason="the time at which the subscription is to expire is past"`},
		{token, `"subscribe":{"channel":"denied"}`, "error 103", `level=INFO msg="subscribe refused" CLIENT user=u channel=denied code=103 reason="permission denied"`},
		{token, `"subscribe":{"channel":"own"}`, "error 1000", ``},
		{token, `"subscribe":{"channel":"12345678901"}`, "error 107", `level=INFO msg="channel refused: its name is too long" CLIENT user=u channel=12345678901 reason="the limit is 10" key=Config.ChannelMaxLength`},
		{token, `"publish":{"channel":"a","data":1}`, "error 108", `level=INFO msg="command refused" CLIENT user=u channel=a code=108 reason="the application has no Publish handler, or not for this type of channel" key=Handlers.Publish`},
		{token, `"presence":{"channel":"a"}`, "error 108", `key=Handlers.Presence`},
		{token, `"presence_stats":{"channel":"a"}`, "error 108", `key=Handlers.PresenceStats`},
		{token, `"refresh":{"token":"x"}`, "error 108", `key=Handlers.Refresh`},
		{token, `"sub_refresh":{"channel":"a","token":"x"}`, "error 103", `channel=a code=103 reason="the client is not subscribed to the channel"`},
		{token, `{"send":{"data":1}}`, "disconnect 3508", `key=Handlers.Message`},
		{token, `"ping":{}`, "disconnect 3501", `reason="the command has no method that clients may use"`},
		{token, `"history":{"channel":"a"}`, "error 100", `level=ERROR msg="handler failed" handler=History CLIENT user=u channel=a error="no disk"`},
		{token, `"rpc":{"method":"add"}`, "error 100", `level=ERROR msg="handler failed" handler=RPC CLIENT user=u method=add error="no database"`},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			node := nodetest.Run(t, gyro.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Handlers: picky, ChannelMaxLength: 10})
			c := wstest.Pipe(t, node)
			outcome, id := "", ""
			if tt.connect != "none" {
				got, r := c.Outcome(`"connect":{` + tt.connect + `}`)
				if outcome = got; got == "ok" {
					id = r.Connect.Client
					c.Subscribe("twice", "")
				}
			}
			switch {
			case strings.HasPrefix(tt.command, "{"):
				c.Send(tt.command)
				synctest.Wait()
				outcome, _ = c.Outcome(`"rpc":{}`)
			case tt.command != "":
				outcome, _ = c.Outcome(tt.command)
			}
			if outcome != tt.outcome {
				t.Errorf("%s %s: %s, want %s", tt.connect, tt.command, outcome, tt.outcome)
			}
			if err := node.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			text := log.String()
			if id != "" {
				tt.line = strings.Replace(tt.line, "CLIENT", "client="+id, 1)
			} else if _, after, ok := strings.Cut(text, " client="); ok {
				tt.line = strings.Replace(tt.line, "CLIENT", "client="+after[:36], 1)
			}
			if n := strings.Count(text, "level=INFO") + strings.Count(text, "level=ERROR"); !strings.Contains(text, tt.line) || tt.line == "" && n > 0 || n > 1 {
				t.Errorf("%s %s: no line\n%s\nor not it alone in\n%s", tt.connect, tt.command, tt.line, text)
			}
		})
	}
}

// A client that never connects is told of in the log.
func TestStaleIsExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []refusal.Refusal
		var log bytes.Buffer
		node := nodetest.Run(t, gyro.Config{
			Logger: slog.New(slog.NewTextHandler(&log, nil)), StaleCloseDelay: time.Second,
			Observer: observe.Observer{Refused: func(f *refusal.Refusal) {
				f.Key = "my.setting"
				told = append(told, *f)
			}},
		})
		c := wstest.Pipe(t, node)
		if d := c.Disconnected(); d.Code != 3502 {
			t.Errorf("%+v", d)
		}
		if err := node.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if len(told) != 1 || told[0].Code != 3502 || told[0].Reason != "no connect command came in time" || !strings.Contains(log.String(), "key=my.setting") {
			t.Errorf("%+v\n%s", told, log.String())
		}
	})
}

// Many refusals of one client cost no more than their commands, and leave few lines.
func TestManyRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		node := nodetest.Run(t, gyro.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Handlers: picky})
		c := wstest.Pipe(t, node)
		c.Connect(`"token":"u"`)
		frame := strings.Repeat(`{"id":1,"publish":{"channel":"a","data":1}}`+"\n", 999) + `{"id":1,"publish":{"channel":"a","data":1}}`
		for range 100 {
			c.Send(frame)
			synctest.Wait()
		}
		if err := node.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "\n"); n > 50 || !strings.Contains(log.String(), "suppressed=") {
			t.Errorf("%d lines", n)
		}
	})
}

// A request that is no WebSocket handshake, or comes from another origin, is told what is
// expected, and leaves a line.
func TestHandshakesAreExplained(t *testing.T) {
	for _, tt := range []struct{ field, value, answer, line string }{
		{"Origin", "https://evil.example", "websocket: origin not allowed: websocket.Config.CheckOrigin refuses it",
			`origin=https://evil.example path=/ws code=403 reason="origin not allowed: websocket.Config.CheckOrigin refuses it, by default all but the request's own host" key=websocket.Config.CheckOrigin`},
		{"Connection", "keep-alive", `websocket: Connection holds no "upgrade": this path is for WebSocket clients`,
			`path=/ws code=400 reason="Connection holds no \"upgrade\": this path is for WebSocket clients, and proxies have to pass Connection and Upgrade on"`},
	} {
		var log bytes.Buffer
		node := nodetest.Run(t, gyro.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		r := httptest.NewRequest(http.MethodGet, "/ws", nil)
		for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
			r.Header.Set(name, value)
		}
		r.Header.Set(tt.field, tt.value)
		w := httptest.NewRecorder()
		websocket.NewHandler(node, websocket.Config{}).ServeHTTP(w, r)
		if err := node.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if !strings.HasPrefix(w.Body.String(), tt.answer) || !strings.Contains(log.String(), `level=INFO msg="WebSocket handshake refused" addr=192.0.2.1:1234 `+tt.line) {
			t.Errorf("%s: %s\n%s", tt.field, w.Body, log.String())
		}
	}
}

// bare hides what the http.ResponseWriter can do besides its methods.
type bare struct{ http.ResponseWriter }

// wrapping wraps an http.ResponseWriter as it should be done.
type wrapping struct{ http.ResponseWriter }

func (w wrapping) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Middleware that hides the connection is told what to add, and so is the log.
func TestMiddlewareIsExplained(t *testing.T) {
	const missing = "the connection cannot be taken over: the http.ResponseWriter of a middleware, a %s, has neither %s nor Unwrap: " +
		"give it the method Unwrap() http.ResponseWriter, which returns the one that it wraps"
	for _, tt := range []struct {
		wrap       func(http.ResponseWriter) http.ResponseWriter
		proto      int
		typ, lacks string // empty if nothing is missing
	}{
		{func(w http.ResponseWriter) http.ResponseWriter { return wrapping{w} }, 1, "", ""},
		{func(w http.ResponseWriter) http.ResponseWriter { return bare{w} }, 1, "observation.bare", "Hijack"},
		{func(w http.ResponseWriter) http.ResponseWriter { return wrapping{&bare{wrapping{w}}} }, 1, "*observation.bare", "Hijack"},
		{func(w http.ResponseWriter) http.ResponseWriter { return bare{w} }, 2, "observation.bare", "SetWriteDeadline"},
	} {
		var log bytes.Buffer
		node := nodetest.Run(t, gyro.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Handlers: gyro.Handlers{Connecting: nodetest.As}})
		body := make(chan string, 1)
		address := nodetest.Serve(t, node, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tt.typ == "" {
					h.ServeHTTP(tt.wrap(w), r)
					return
				}
				if tt.proto == 2 { // what an extended CONNECT is to a handler
					r.ProtoMajor, r.Method = 2, http.MethodConnect
					r.Header.Set(":protocol", "websocket")
				}
				answer := httptest.NewRecorder()
				h.ServeHTTP(tt.wrap(answer), r)
				body <- answer.Body.String()
				w.WriteHeader(answer.Code)
			})
		})
		c, status := wstest.Handshake(t, address, nil)
		if tt.typ == "" {
			c.Connect("")
			continue
		}
		want := fmt.Sprintf(missing, tt.typ, tt.lacks)
		if got := wait.Receive(t, "an answer", body); status != http.StatusInternalServerError || got != "websocket: "+want+"\n" {
			t.Errorf("%d %s\nwant %s", status, got, want)
		}
		nodetest.Must(t, node.Shutdown(t.Context()))
		if line := fmt.Sprintf("code=500 reason=%q", want); !strings.Contains(log.String(), line) {
			t.Errorf("no line with\n%s in\n%s", line, log.String())
		}
	}
}
