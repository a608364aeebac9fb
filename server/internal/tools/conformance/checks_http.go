package conformance

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gobwas/ws"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/server/internal/tools/conformance/probe"
	"github.com/gyrohq/gyro/server/internal/tools/conformance/talk"
)

func httpChecks() []check {
	const section, handshake = "codes.md#http-statuses", "protocol-rules.md#handshake"
	status := func(name, rule string, needs need, method string, want int) check {
		return check{"http." + name, section, rule, needs, func(t *trial) { t.status(method, t.Dialer.URL, "", nil, want) }}
	}
	return []check{
		{"handshake.encoding", handshake, "the subprotocol centrifuge-protobuf is echoed and chooses Protobuf; so does the query", webSocket, func(t *trial) {
			for _, offer := range []struct {
				query     string
				protocols []string
				chosen    string
				protobuf  bool
			}{
				{"", nil, "", false}, {"", []string{"centrifuge-protobuf"}, "centrifuge-protobuf", true}, {"", []string{"centrifuge-json"}, "centrifuge-json", false},
				{"", []string{"unheard-of", "centrifuge-protobuf"}, "centrifuge-protobuf", true}, {"", []string{"unheard-of"}, "", false},
				{"cf_protocol=protobuf", nil, "", true}, {"format=protobuf", nil, "", true}, {"unheard=of", nil, "", false},
			} {
				chosen, op := t.upgrade(offer.query, offer.protocols)
				t.Want(chosen == offer.chosen, "offered %q, the server chooses %q, expected %q", offer.protocols, chosen, offer.chosen)
				t.Want((op == ws.OpBinary) == offer.protobuf, "subprotocols %q, query %q: the messages are binary: %t, expected %t", offer.protocols, offer.query, op == ws.OpBinary, offer.protobuf)
			}
		}},
		{"handshake.fragments", handshake, "a message in several WebSocket frames is one, whatever its opcode; a close is echoed", webSocket, func(t *trial) { t.fragments() }},
		status("plain_get", "a request that is no WebSocket handshake is answered with 400", webSocket, http.MethodGet, http.StatusBadRequest),
		status("websocket_method", "a POST to the WebSocket endpoint is answered with 405", webSocket, http.MethodPost, http.StatusMethodNotAllowed),
		status("options", "OPTIONS is answered with 204", lineStream, http.MethodOptions, http.StatusNoContent),
		status("method", "a method that the endpoint does not have is answered with 405", emulated, http.MethodPut, http.StatusMethodNotAllowed),
		status("no_connect", "SSE without cf_connect is answered with 400", eventStream, http.MethodGet, http.StatusBadRequest),
		{"http.large", section, "a body beyond the limit is answered with 413", emulated, func(t *trial) {
			for size := 65 << 10; size <= 5<<20; size *= 4 {
				if t.status(http.MethodPost, t.Dialer.URL, strings.Repeat("x", size), expecting, http.StatusRequestEntityTooLarge, http.StatusOK) == http.StatusRequestEntityTooLarge {
					return
				}
			}
			t.Skip("the server takes bodies of 4 MiB")
		}},
		{"emulation.statuses", section, "the emulation endpoint tells bad requests, unknown nodes and other methods; an unknown session is answered as others are", emulated, func(t *trial) {
			c := t.Connect()
			request := func(node, session string) string {
				r := protocol.EmulationRequest{Node: node, Session: session, Data: []byte(`"{}"`)}
				if t.Encoding == protocol.Protobuf {
					r.Data = []byte{0}
					return string(r.AppendProto(nil))
				}
				text, _ := r.AppendJSON(nil) // it has JSON alone
				return string(text)
			}
			typed := func(r *http.Request) {
				if t.Encoding == protocol.Protobuf {
					r.Header.Set("Content-Type", "application/octet-stream")
				}
			}
			at := t.Dialer.Emulation
			t.status(http.MethodGet, at, "", typed, http.StatusMethodNotAllowed)
			t.status(http.MethodOptions, at, "", typed, http.StatusNoContent)
			t.status(http.MethodPost, at, "\xff{", typed, http.StatusBadRequest)
			t.status(http.MethodPost, at, request("no-such-node", c.Hello.Session), typed, http.StatusNotFound)
			t.status(http.MethodPost, at, request(c.Hello.Node, "no-such-session"), typed, http.StatusNoContent)
			c.Alive()
		}},
		{"emulation.session", "protocol-rules.md#http-streams", "a session ends with its connection, and does not answer others", emulated, func(t *trial) {
			a, b := t.Connect(), t.Connect()
			a.Alive()
			b.Still("a reply to a command of another connection", func(r *protocol.Reply) bool { return r.ID > 0 })
			b.Alive()
		}},
	}
}

func httpURL(address string) string {
	if rest, ok := strings.CutPrefix(address, "ws"); ok {
		return "http" + rest
	}
	return address
}

// expecting sends the body when the server asks for it: a server that refuses at once may close the connection during
// the body, and its answer is lost.
func expecting(r *http.Request) { r.Header.Set("Expect", "100-continue") }

func (t *trial) status(method, address, body string, edit func(*http.Request), want ...int) int {
	ctx, cancel := context.WithTimeout(t.Ctx, t.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, httpURL(address), strings.NewReader(body))
	if err != nil {
		t.Fail("%v", err)
	}
	if edit != nil {
		edit(req)
	}
	transport := &http.Transport{TLSClientConfig: t.TLS, DisableKeepAlives: true, ExpectContinueTimeout: t.Timeout}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fail("%s %s is not answered: %v", method, req.URL.Path, err)
	}
	defer res.Body.Close()
	t.Want(slices.Contains(want, res.StatusCode), "%s %s with a body of %d bytes is answered with %d, expected %v", method, req.URL.Path, len(body), res.StatusCode, want)
	return res.StatusCode
}

func (t *trial) upgrade(query string, protocols []string) (chosen string, op ws.OpCode) {
	conn, chosen := t.webSocket(query, protocols)
	defer conn.Close()
	e := protocol.JSON
	if chosen == "centrifuge-protobuf" || strings.HasSuffix(query, "=protobuf") {
		e = protocol.Protobuf
	}
	hello, err := talk.Frame(e, t.Hi())
	if err != nil {
		t.Fail("a command cannot be encoded: %v", err)
	}
	op = ws.OpText
	if e == protocol.Protobuf {
		op = ws.OpBinary // a text frame must be UTF-8
	}
	t.writeFrame(conn, ws.NewFrame(op, true, hello))
	f := t.readFrame(conn)
	t.Want(f.Header.OpCode == ws.OpText || f.Header.OpCode == ws.OpBinary, "the reply to connect is a frame with opcode %d: %q", f.Header.OpCode, f.Payload)
	want := []byte(`"connect"`)
	t.Want(e == protocol.Protobuf || bytes.Contains(f.Payload, want), "the reply to connect is %q", f.Payload)
	return chosen, f.Header.OpCode
}

func (t *trial) webSocket(query string, protocols []string) (net.Conn, string) {
	u, err := url.Parse(t.Dialer.URL)
	if err != nil {
		t.Fail("%v", err)
	}
	if query != "" {
		u.RawQuery = query
	}
	d := ws.Dialer{Timeout: t.Timeout, TLSConfig: t.TLS, Protocols: protocols}
	conn, buffered, hs, err := d.Dial(t.Ctx, u.String())
	if err != nil {
		t.Fail("the handshake with subprotocols %q and query %q fails: %v", protocols, query, err)
	}
	_ = conn.SetDeadline(time.Now().Add(t.Timeout)) // a closed connection shows at once
	if buffered != nil {                            // nothing comes before the first command
		ws.PutReader(buffered)
	}
	return conn, hs.Protocol
}

func (t *trial) writeFrame(conn net.Conn, f ws.Frame) {
	if err := ws.WriteFrame(conn, ws.MaskFrameInPlace(f)); err != nil {
		t.Fail("a WebSocket frame cannot be sent: %v", err)
	}
}

func (t *trial) readFrame(conn net.Conn) ws.Frame {
	f, err := ws.ReadFrame(conn)
	if err != nil {
		t.Fail("no WebSocket frame comes: %v", err)
	}
	return f
}

func (t *trial) fragments() {
	op, other, protocols := ws.OpText, ws.OpBinary, []string(nil)
	if t.Encoding == protocol.Protobuf { // the second command is UTF-8 there, as a text frame must be
		op, other, protocols = ws.OpBinary, ws.OpText, []string{"centrifuge-protobuf"}
	}
	conn, _ := t.webSocket("", protocols)
	defer conn.Close()
	hello, next := t.Frame(t.Hi()), t.Frame(probe.WithID(2, probe.Unsubscribe("c")))
	half := len(hello) / 2
	t.writeFrame(conn, ws.NewFrame(op, false, hello[:half:half]))
	t.writeFrame(conn, ws.NewPingFrame([]byte("between")))
	t.writeFrame(conn, ws.NewFrame(ws.OpContinuation, true, hello[half:]))
	t.writeFrame(conn, ws.NewFrame(other, true, next))
	replies, pong := 0, false
	for replies < 2 || !pong {
		f := t.readFrame(conn)
		switch f.Header.OpCode {
		case ws.OpPong:
			pong = string(f.Payload) == "between"
			t.Want(pong, "a WebSocket pong has the payload %q", f.Payload)
		case ws.OpText, ws.OpBinary:
			replies += countMessages(t.Encoding, f.Payload)
		default:
			t.Fail("a frame with opcode %d comes: %q", f.Header.OpCode, f.Payload)
		}
	}
	t.writeFrame(conn, ws.NewCloseFrame(ws.NewCloseFrameBody(ws.StatusNormalClosure, "")))
	for {
		f, err := ws.ReadFrame(conn)
		if err != nil {
			t.Fail("a close is not echoed: %v", err)
		}
		if f.Header.OpCode == ws.OpClose {
			code, _ := ws.ParseCloseFrameData(f.Payload)
			t.Want(code == ws.StatusNormalClosure, "a close with 1000 is echoed as %d", code)
			return
		}
	}
}

func countMessages(e protocol.Encoding, frame []byte) (n int) {
	for cc := codec.ForClient(e); len(frame) > 0; n++ {
		rest, err := cc.DecodeReply(frame, new(protocol.Reply))
		if err != nil {
			return n
		}
		frame = rest
	}
	return n
}
