//go:build unix

package httpstream

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

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/httpstream/internal/endpoint"
	"github.com/gyrohq/gyro/transport/httpstream/internal/framing"
	"github.com/gyrohq/gyro/transport/internal/drivertest"
)

var update = flag.Bool("update", false, "write what the endpoint alone does into testdata")

// TestFixtures runs the conversations of testdata with the endpoint alone and through both drivers.
// Everything that happens is the same, and at the same time.
//
// A conversation begins with "== name: SETTING...". What happens to a connection, once the head of
// the answer is sent, stands at the beginning of a line, what comes of it is indented below: first
// what the peer hears, then what the client gets, then what became of the connection.
//
//	recv "BYTES"        the client sends bytes
//	send "MESSAGES"...  the core writes frames
//	close CODE "REASON" "MESSAGES"...   the core closes the connection, with frames
//	pause, resume       the core pauses reading
//	tick DURATION       time passes
//	stall, read         the client does not read any more, or again
//	leave               the client closes its socket
//
// The settings are a format, chunked, one-way, and first with commands that the request had. "*N"
// behind a text: N times.
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
			for way, drive := range drivertest.Ways[endpoint.Endpoint]() {
				c := &conversation{lines: strings.Split(strings.TrimSpace(part), "\n")}
				t.Run(filepath.Base(file)+"/"+name+"/"+way, func(t *testing.T) {
					drive(t, func() (endpoint.Endpoint, drivertest.Peer, []byte) { return c.begin(t) },
						func(d drivertest.Conn, p drivertest.Peer) { c.run(t, d, p.(*fixturePeer)) })
					if got := strings.Join(c.got, "\n"); !*update && got != strings.TrimSpace(part) {
						t.Errorf("got\n%s\nwant\n%s", got, part)
					}
				})
				if way == "alone" {
					updated.WriteString(strings.Join(c.got, "\n") + "\n\n")
				}
			}
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
	lines  []string
	got    []string
	framer *framing.Framer
}

// begin makes what the settings say.
func (c *conversation) begin(t *testing.T) (endpoint.Endpoint, *fixturePeer, []byte) {
	format, chunked, kind := framing.Lines, false, HTTPStream
	var first []byte
	_, words, _ := strings.Cut(c.lines[0], ": ")
	for _, word := range strings.Fields(words) {
		switch word {
		case "lines":
		case "events":
			format = framing.Events
		case "delimited":
			format = framing.Delimited
		case "chunked":
			chunked = true
		case "one-way":
			kind = UniHTTPStream
		case "first":
			first = []byte(`{"id":1}`)
		default:
			t.Fatalf("unknown setting %q", word)
		}
	}
	c.framer = framing.Of(format, chunked)
	return endpoint.New(&NewHandler(kind, nil, Config{}).endpoint, c.framer), new(fixturePeer), first
}

// run does what the lines say.
func (c *conversation) run(t *testing.T, d drivertest.Conn, p *fixturePeer) {
	t.Helper()
	said := &transcript{peer: p}
	for i, line := range c.lines {
		if strings.HasPrefix(line, " ") {
			continue
		}
		c.got = append(c.got, line)
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "==":
		case "recv":
			d.Receive([]byte(strings.Join(texts(t, rest), "")))
		case "send":
			list := c.frames(t, rest)
			if n, err := d.Write(list); err == nil && n < len(bytes.Join(list, nil)) {
				c.got = append(c.got, fmt.Sprintf("  took %d", n))
			}
		case "close":
			code, rest, _ := strings.Cut(rest, " ")
			n, err := strconv.Atoi(code)
			reason, frames, _ := strings.Cut(strings.TrimPrefix(rest, `"`), `"`)
			if err != nil {
				t.Fatalf("line %d: %v", i, err)
			}
			d.Close(protocol.Disconnect{Code: uint32(n), Reason: reason}, c.frames(t, frames))
		case "pause", "resume":
			d.Pause(verb == "pause")
		case "tick":
			after, err := time.ParseDuration(rest)
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

// frames makes a frame of each text.
func (c *conversation) frames(t *testing.T, list string) (frames [][]byte) {
	for _, text := range texts(t, list) {
		buf := append(make([]byte, c.framer.Headroom()), text...)
		frames = append(frames, bytes.Clone(c.framer.Frame(buf)))
	}
	return frames
}

// texts are quoted, and may be repeated.
func texts(t *testing.T, list string) (all []string) {
	for list = strings.TrimSpace(list); list != ""; list = strings.TrimSpace(list) {
		q, err := strconv.QuotedPrefix(list)
		if err != nil {
			t.Fatalf("%s: %v", list, err)
		}
		text, _ := strconv.Unquote(q)
		if list = list[len(q):]; strings.HasPrefix(list, "*") {
			var times string
			times, list, _ = strings.Cut(list[1:], " ")
			n, err := strconv.Atoi(times)
			if err != nil {
				t.Fatal(err)
			}
			text = strings.Repeat(text, n)
		}
		all = append(all, text)
	}
	return all
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
	if text := string(got[s.seen:]); text != "" {
		lines = append(lines, "  < "+shown(text))
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

// shown shortens long runs of x.
func shown(text string) string {
	from := strings.Index(text, strings.Repeat("x", 100))
	if from < 0 {
		return strconv.Quote(text)
	}
	rest := strings.TrimLeft(text[from:], "x")
	n := len(text) - from - len(rest)
	return fmt.Sprintf(`%q "x"*%d %s`, text[:from], n, shown(rest))
}

// fixturePeer writes down what it hears.
type fixturePeer struct {
	conn  transport.Conn
	mu    sync.Mutex
	heard []string
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

func (p *fixturePeer) Receive(msg []byte) { p.hears("message %q", msg) }
func (p *fixturePeer) Writable()          { p.hears("writable") }

func (p *fixturePeer) Closed(err error) {
	var d protocol.Disconnect
	switch {
	case errors.As(err, &d):
		p.hears("closed %d %q", d.Code, d.Reason)
	case strings.Contains(fmt.Sprint(err), "connection lost"):
		p.hears("lost")
	default:
		p.hears("closed: %v", err)
	}
}
