//go:build unix

package websocket

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/internal/testkit/wstest/frametest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/drivertest"
	"github.com/gyrohq/gyro/transport/websocket/internal/endpoint"
	"github.com/gyrohq/gyro/transport/websocket/internal/rfc6455"
)

// TestFixtures runs the conversations of testdata, see drivertest.Fixtures.
//
// Of the settings, deflate and native-ping are agreed on in the handshake, one-way and
// no-closing-handshake are of the server, a pausing-peer pauses reading with each message, and
// a closing-peer closes the connection.
//
// What the client sends and the core writes are frames: text, binary, cont, ping, pong or deflated and
// a quoted payload, or close with a code and a reason or without. "+" behind the name: not the last one
// of a message; "*N" behind a payload: N times. raw has bytes that are no frame.
func TestFixtures(t *testing.T) {
	drivertest.Fixtures(t, "testdata/*.txt", func(t *testing.T, settings []string, p *drivertest.Witness) drivertest.Protocol[endpoint.Endpoint] {
		p.Cause = causeOf
		hs, cfg := new(handshake), Config{MessageSizeLimit: 1000, Compression: true}
		for _, word := range settings {
			switch word {
			case "native-ping":
				hs.nativePing = true
			case "one-way", "no-closing-handshake":
				cfg.OneWay, hs.nativePing = &OneWay{NoClosingHandshake: word != "one-way"}, true
			case "deflate":
				hs.compress = true
			case "pausing-peer":
				p.Inside = func(conn transport.Conn) { conn.Pause(true) }
			case "closing-peer":
				p.Inside = func(conn transport.Conn) { conn.Close(protocol.DisconnectBadRequest, frames("reply")) }
			default:
				t.Fatalf("unknown setting %q", word)
			}
		}
		return drivertest.Protocol[endpoint.Endpoint]{
			Endpoint: NewHandler(nil, cfg).newEndpoint(hs), Sent: sent, Frames: unmasked, Shown: shownFrames,
		}
	})
}

// causeOf describes the end of a connection by WebSocket.
func causeOf(err error) string {
	e, ok := errors.AsType[*rfc6455.CloseError](err)
	if _, ours := errors.AsType[protocol.Disconnect](err); ours || !ok {
		return ""
	}
	by := "server"
	if e.ByClient {
		by = "client"
	}
	return fmt.Sprintf("closed by %s: %d %q", by, e.Code, e.Reason)
}

// shownFrames returns a line for each frame.
func shownFrames(got []byte) (lines []string) {
	for r := bytes.NewReader(got); r.Len() > 0; {
		f, err := frametest.Read(r)
		if err != nil {
			return append(lines, err.Error())
		}
		lines = append(lines, shown(f))
	}
	return lines
}

var frameNames = map[string]byte{"cont": 0, "text": 1, "deflated": 1, "binary": 2, "close": 8, "ping": 9, "pong": 10}

func shown(f frame) string {
	name := ""
	for n, op := range frameNames {
		if op == f.Op && n != "deflated" {
			name = n
		}
	}
	if !f.Fin {
		name += "+"
	}
	if f.Op == 8 && len(f.Payload) >= 2 {
		return f.String() // with its code
	}
	if f.Payload == "" {
		return name
	}
	return name + " " + drivertest.Quoted(f.Payload)
}

// eachFrame calls f for the frames of a line, or for raw bytes.
func eachFrame(in *drivertest.Input, f func(f frame, raw string)) {
	for in.More() {
		name, more := strings.CutSuffix(in.Word(), "+")
		if name == "raw" {
			f(frame{}, in.Text())
			continue
		}
		op, ok := frameNames[name]
		if !ok {
			in.Fail("unknown frame " + name)
		}
		if name == "close" {
			if code, ok := in.Number(); ok {
				f(closeFr(uint16(code), in.Text()), "")
				continue
			}
		}
		fr := frame{Fin: !more, Op: op, Payload: in.Text()}
		if name == "deflated" {
			fr.RSV1, fr.Payload = true, frametest.Deflate(fr.Payload)
		}
		f(fr, "")
	}
}

func sent(in *drivertest.Input) (b []byte) {
	eachFrame(in, func(f frame, raw string) {
		if raw != "" {
			b = append(b, raw...)
			return
		}
		b = append(b, masked(f)...)
	})
	return b
}

func unmasked(in *drivertest.Input) (list [][]byte) {
	eachFrame(in, func(f frame, _ string) { list = append(list, frametest.Unmasked(f)) })
	return list
}
