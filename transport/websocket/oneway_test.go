package websocket

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

func TestOneWayHandshake(t *testing.T) {
	for _, tt := range []struct {
		name, query string
		connect     bool
		token       string
	}{
		{name: "none"},
		{name: "other parameters", query: "?format=protobuf&cf_ws_frame_ping_pong=true"},
		{name: "empty", query: "?cf_connect="},
		{name: "empty request", query: "?cf_connect={}", connect: true},
		{name: "null", query: "?cf_connect=null", connect: true},
		{name: "token", query: "?cf_connect=" + url.QueryEscape(`{"token":"a","x":1}`), connect: true, token: "a"},
		{name: "trailing bytes", query: "?cf_connect=" + url.QueryEscape(`{"token":"a"} {]`), connect: true, token: "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, Config{OneWay: &OneWay{}})
			header := http.Header{"Sec-Websocket-Protocol": {"centrifuge-protobuf"}}
			c, answer := newClient(t, s.dial(), "/"+tt.query, header)
			i := wait.Receive(t, "a peer", s.peers).Info
			if i.Name != "uni_websocket" || i.Mode != transport.OneWay || !i.DisconnectPush || i.NativePing || i.Framer.Encoding() != protocol.JSON {
				t.Errorf("info %+v", i)
			}
			if got := answer.Get("Sec-Websocket-Protocol"); got != "" {
				t.Errorf("subprotocol %q", got)
			}
			if (i.Connect != nil) != tt.connect || tt.connect && i.Connect.Token != tt.token {
				t.Errorf("connect request %+v", i.Connect)
			}
			c.nc.Close()
		})
	}
}

// A connect request in the query that is none is refused, before the client is accepted.
func TestOneWayRefusals(t *testing.T) {
	s := newServer(t, Config{OneWay: &OneWay{}})
	for _, request := range []string{`{`, `[]`, `"x"`, `{"token":1}`, " ", "\x00"} {
		nc := s.dial()
		_ = nc.SetDeadline(time.Now().Add(patience))
		requestLine(t, nc, "/?cf_connect="+url.QueryEscape(request))
		resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if strings.TrimSpace(string(body)) != "invalid connect request" || resp.StatusCode != http.StatusBadRequest || err != nil {
			t.Errorf("%q: %d %s, %v", request, resp.StatusCode, body, err)
		}
		nc.Close()
	}
	select {
	case <-s.peers:
		t.Error("a refused client was accepted")
	default:
	}
}

func requestLine(t *testing.T, w io.Writer, target string) {
	t.Helper()
	if _, err := io.WriteString(w, request("gyro.test", target, nil)); err != nil {
		t.Fatal(err)
	}
}

// A node that shuts down takes no one-way clients either.
func TestOneWayShutdown(t *testing.T) {
	s := newServer(t, Config{OneWay: &OneWay{}})
	s.prepare = func(*testPeer) error { return protocol.DisconnectShutdown }
	c, _ := newClient(t, s.dial(), "/", nil)
	c.expect(closeFr(3001, "shutdown"))
	c.send(closeFr(3001, ""))
	c.expectEOF()
}

// The options reach the connection.
func TestOneWayOptions(t *testing.T) {
	s := newServer(t, Config{OneWay: &OneWay{NoDisconnectPush: true, NoClosingHandshake: true}})
	c, p := s.connect("/", nil)
	if p.Info.DisconnectPush {
		t.Error("a disconnect push is asked for")
	}
	p.Conn.Close(protocol.DisconnectForceReconnect, frames("last"))
	c.expect(text("last"))
	c.expectEOF()
	if err := p.ClosedWith(); !errors.Is(err, protocol.DisconnectForceReconnect) {
		t.Errorf("Closed(%v)", err)
	}
}
