//go:build unix

package websocket

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/internal/wstest/frametest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/drivertest"
	"github.com/gyrohq/gyro/transport/websocket/internal/endpoint"
	"github.com/gyrohq/gyro/transport/websocket/internal/rfc6455"
)

var update = flag.Bool("update", false, "write what the pure endpoint does into testdata")

// TestFixtures runs the conversations of testdata with the endpoint alone and through
// both drivers, on a loop also over TLS. Everything that happens is the same, and at the same time.
//
// A conversation begins with "== name", or "== name: SETTING...". What happens to a
// connection stands at the beginning of a line, what comes of it is indented below:
// first what the peer hears, then what the client gets, then what became of the
// connection.
//
//	recv FRAME...       the client sends frames in one piece
//	drip FRAME...       the same, byte by byte
//	send FRAME...       the core writes frames
//	close CODE REASON FRAME...   the core closes the connection
//	pause, resume       the core pauses reading
//	tick DURATION       time passes
//	stall, read         the client does not read any more, or again
//	leave               the client closes its socket
//
// Of the settings, deflate and native-ping are agreed on in the handshake, one-way and
// no-closing-handshake are of the server, a pausing-peer pauses reading with each message, and
// a closing-peer closes the connection.
//
// A frame is text, binary, cont, ping, pong or deflated and a quoted payload, or close
// with a code and a reason or without. "+" behind its name: not the last one of a message;
// "*N" behind a payload: N times. raw has bytes that are no frame.
func TestFixtures(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var updated strings.Builder
		for _, part := range strings.SplitAfter(string(source), "\n\n") {
			name, _, _ := strings.Cut(strings.TrimPrefix(part, "== "), "\n")
			if !strings.HasPrefix(part, "== ") {
				updated.WriteString(part) // a comment
				continue
			}
			t.Run(filepath.Base(file)+"/"+name, func(t *testing.T) {
				for way, drive := range drivertest.Ways[endpoint.Endpoint]() {
					c := &conversation{lines: strings.Split(strings.TrimSpace(part), "\n")}
					t.Run(way, func(t *testing.T) {
						drive(t, func() (endpoint.Endpoint, drivertest.Peer, []byte) {
							h, hs, p := c.setting(t)
							return h.newEndpoint(hs), p, nil
						}, func(d drivertest.Conn, p drivertest.Peer) { c.run(t, d, p.(*fixturePeer)) })
					})
					switch got := strings.Join(c.got, "\n"); {
					case *update && way == "alone":
						updated.WriteString(got + "\n\n")
					case !*update && got != strings.TrimSpace(part):
						t.Errorf("%s: got\n%s\nwant\n%s", way, got, part)
					}
				}
			})
		}
		if *update {
			if err := os.WriteFile(file, []byte(strings.TrimSpace(updated.String())+"\n"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// conversation is one fixture.
type conversation struct {
	lines []string
	got   []string
}

// setting is how a conversation begins.
func (c *conversation) setting(t *testing.T) (h *Handler, hs *handshake, p *fixturePeer) {
	hs, p = new(handshake), new(fixturePeer)
	cfg := Config{MessageSizeLimit: 1000, Compression: true}
	_, words, _ := strings.Cut(c.lines[0], ": ")
	for _, word := range strings.Fields(words) {
		switch word {
		case "native-ping":
			hs.nativePing = true
		case "one-way", "no-closing-handshake":
			cfg.OneWay, hs.nativePing = &OneWay{NoClosingHandshake: word != "one-way"}, true
		case "deflate":
			hs.compress = true
		case "pausing-peer":
			p.inside = func(conn transport.Conn) { conn.Pause(true) }
		case "closing-peer":
			p.inside = func(conn transport.Conn) { conn.Close(protocol.DisconnectBadRequest, frames("reply")) }
		default:
			t.Fatalf("unknown setting %q", word)
		}
	}
	return NewHandler(nil, cfg), hs, p
}

// run does what the lines say.
func (c *conversation) run(t *testing.T, d drivertest.Conn, p *fixturePeer) {
	t.Helper()
	said := &transcript{peer: p}
	for _, line := range c.lines {
		if strings.HasPrefix(line, " ") {
			continue
		}
		c.got = append(c.got, line)
		verb, rest, _ := strings.Cut(line, " ")
		in := &input{t: t, line: line, rest: rest}
		switch verb {
		case "==":
		case "recv":
			d.Receive(in.masked())
		case "drip":
			for _, b := range in.masked() {
				d.Receive([]byte{b})
				d.WaitIdle()
			}
		case "send":
			list := in.unmasked()
			if n, err := d.Write(list); err == nil && n < len(bytes.Join(list, nil)) {
				c.got = append(c.got, fmt.Sprintf("  took %d", n))
			}
		case "close":
			code, _ := strconv.Atoi(in.word())
			d.Close(protocol.Disconnect{Code: uint32(code), Reason: in.quoted()}, in.unmasked())
		case "pause", "resume":
			d.Pause(verb == "pause")
		case "tick":
			after, err := time.ParseDuration(in.word())
			if err != nil {
				t.Fatal(err)
			}
			d.Pass(after)
		case "stall", "read":
			d.Stall(verb == "stall")
			said.stalled = verb == "stall"
		case "leave":
			d.Leave()
		default:
			t.Fatalf("unknown: %s", line)
		}
		c.got = append(c.got, said.since(d.WaitIdle())...)
	}
}

// transcript writes down what comes of what happens.
type transcript struct {
	peer               *fixturePeer
	seen               int
	halfClosed, closed bool
	stalled            bool // the client does not look
}

func (s *transcript) since(got []byte, halfClosed, closed bool) (lines []string) {
	for _, l := range s.peer.take() {
		lines = append(lines, "  "+l)
	}
	if s.stalled {
		got = got[:s.seen]
	}
	for r := bytes.NewReader(got[s.seen:]); r.Len() > 0; {
		f, err := frametest.Read(r)
		if err != nil {
			lines = append(lines, fmt.Sprintf("  < %v", err))
			break
		}
		lines = append(lines, "  < "+shown(f))
	}
	s.seen = len(got)
	if halfClosed && !closed && !s.halfClosed {
		lines = append(lines, "  half-closed")
		s.halfClosed = true
	}
	if closed && !s.closed {
		lines = append(lines, "  over")
		s.closed = true
	}
	return lines
}

// fixturePeer writes down what it hears.
type fixturePeer struct {
	conn   transport.Conn
	inside func(transport.Conn) // what it does with the connection when it receives
	mu     sync.Mutex
	heard  []string
}

// Began implements drivertest.Peer.
func (p *fixturePeer) Began(c transport.Conn) { p.conn = c }

func (p *fixturePeer) hears(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = append(p.heard, fmt.Sprintf(format, args...))
}

func (p *fixturePeer) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	heard := p.heard
	p.heard = nil
	return heard
}

func (p *fixturePeer) Receive(msg []byte) {
	p.hears("message %s", quoted(string(msg)))
	if p.inside != nil {
		p.inside(p.conn)
	}
}

func (p *fixturePeer) Writable() { p.hears("writable") }

func (p *fixturePeer) Closed(err error) {
	var d protocol.Disconnect
	var e *rfc6455.CloseError
	switch {
	case errors.As(err, &d):
		p.hears("closed %d %q", d.Code, d.Reason)
	case errors.As(err, &e) && e.ByClient:
		p.hears("closed by client: %d %q", e.Code, e.Reason)
	case errors.As(err, &e):
		p.hears("closed by server: %d %q", e.Code, e.Reason)
	case strings.Contains(fmt.Sprint(err), "connection lost"):
		p.hears("lost")
	default:
		p.hears("closed: %v", err)
	}
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
	return name + " " + quoted(f.Payload)
}

func quoted(s string) string {
	if n := len(s); n > 100 && s == strings.Repeat(s[:1], n) {
		return fmt.Sprintf("%q*%d", s[:1], n)
	}
	return strconv.Quote(s)
}

// input is the rest of a line.
type input struct {
	t          *testing.T
	line, rest string
}

func (in *input) word() (w string) {
	w, in.rest, _ = strings.Cut(strings.TrimLeft(in.rest, " "), " ")
	return w
}

// quoted is a text, or nothing.
func (in *input) quoted() string {
	in.rest = strings.TrimLeft(in.rest, " ")
	q, err := strconv.QuotedPrefix(in.rest)
	if err != nil {
		return ""
	}
	in.rest = in.rest[len(q):]
	s, _ := strconv.Unquote(q)
	if strings.HasPrefix(in.rest, "*") {
		n, err := strconv.Atoi(in.word()[1:])
		if err != nil {
			in.t.Fatalf("%s: %v", in.line, err)
		}
		s = strings.Repeat(s, n)
	}
	return s
}

// each calls f for the frames, or for raw bytes.
func (in *input) each(f func(f frame, raw string)) {
	for in.rest = strings.TrimSpace(in.rest); in.rest != ""; in.rest = strings.TrimSpace(in.rest) {
		name, more := strings.CutSuffix(in.word(), "+")
		if name == "raw" {
			f(frame{}, in.quoted())
			continue
		}
		op, ok := frameNames[name]
		if !ok {
			in.t.Fatalf("unknown frame %q: %s", name, in.line)
		}
		fr := frame{Fin: !more, Op: op}
		if before := in.rest; name == "close" {
			if code, err := strconv.Atoi(in.word()); err == nil {
				f(closeFr(uint16(code), in.quoted()), "")
				continue
			}
			in.rest = before
		}
		fr.Payload = in.quoted()
		if name == "deflated" {
			fr.RSV1, fr.Payload = true, frametest.Deflate(fr.Payload)
		}
		f(fr, "")
	}
}

func (in *input) masked() (b []byte) {
	in.each(func(f frame, raw string) {
		if raw != "" {
			b = append(b, raw...)
			return
		}
		b = append(b, masked(f)...)
	})
	return b
}

func (in *input) unmasked() (list [][]byte) {
	in.each(func(f frame, _ string) { list = append(list, frametest.Unmasked(f)) })
	return list
}
