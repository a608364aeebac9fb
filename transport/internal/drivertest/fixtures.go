//go:build unix

package drivertest

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
)

var update = flag.Bool("update", false, "write what endpoints alone do into the fixtures")

// Protocol has what depends on the protocol in the fixtures.
type Protocol[E any] struct {
	Endpoint E
	// First is the message that the connection begins with; nil: none.
	First []byte
	// Sent reads what the client sends.
	Sent func(in *Input) []byte
	// Frames reads what the core writes.
	Frames func(in *Input) [][]byte
	// Shown returns a line for each thing in the bytes that the client got.
	Shown func(got []byte) []string
}

// Fixtures runs the conversations of files in all Ways. The results and their times must be the same.
// begin fails for a setting that is unknown.
//
// A conversation begins with "== name", or "== name: SETTING...". An event of the connection stands at the beginning of
// a line. Its results are indented below: first the calls of the peer, then the bytes for the client, then the end of
// the connection.
//
//	recv SENT           the client sends something
//	drip SENT           the same, byte by byte
//	send FRAMES         the core writes frames
//	close CODE "REASON" FRAMES   the core closes the connection
//	pause, resume       the core pauses reading
//	tick DURATION       time passes
//	stall, read         the client does not read any more, or again
//	leave               the client closes its socket
//
// With the flag -update, the results of endpoints without a driver are written into the files.
func Fixtures[E any, P pointer[E]](t *testing.T, pattern string, begin func(t *testing.T, settings []string, p *Witness) Protocol[E]) {
	files, err := filepath.Glob(pattern)
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
			if !strings.HasPrefix(part, "== ") {
				updated.WriteString(part) // a comment
				continue
			}
			lines := strings.Split(strings.TrimSpace(part), "\n")
			name, settings, _ := strings.Cut(strings.TrimPrefix(lines[0], "== "), ": ")
			for way, drive := range Ways[E, P]() {
				c := &conversation[E]{}
				t.Run(filepath.Base(file)+"/"+name+"/"+way, func(t *testing.T) {
					drive(t, func() (E, Peer, []byte) {
						p := &Witness{}
						c.Protocol = begin(t, strings.Fields(settings), p)
						return c.Endpoint, p, c.First
					}, func(d Conn, p Peer) { c.run(t, d, p.(*Witness), lines) })
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

type conversation[E any] struct {
	Protocol[E]
	got []string
}

func (c *conversation[E]) run(t *testing.T, d Conn, p *Witness, lines []string) {
	t.Helper()
	said := &transcript{peer: p, shown: c.Shown}
	for _, line := range lines {
		if strings.HasPrefix(line, " ") {
			continue
		}
		c.got = append(c.got, line)
		if !strings.HasPrefix(line, "== ") {
			verb, rest, _ := strings.Cut(line, " ")
			c.do(d, verb, &Input{t, line, rest})
			said.stalled = verb == "stall" || said.stalled && verb != "read"
		}
		c.got = append(c.got, said.since(d.WaitIdle())...)
	}
}

func (c *conversation[E]) do(d Conn, verb string, in *Input) {
	switch verb {
	case "recv":
		d.Receive(c.Sent(in))
	case "drip":
		for _, b := range c.Sent(in) {
			d.Receive([]byte{b})
			d.WaitIdle()
		}
	case "send":
		list := c.Frames(in)
		if n, err := d.Write(list); err == nil && n < len(bytes.Join(list, nil)) {
			c.got = append(c.got, fmt.Sprintf("  took %d", n))
		}
	case "close":
		code, err := strconv.Atoi(in.Word())
		in.check(err)
		d.Close(protocol.Disconnect{Code: uint32(code), Reason: in.Text()}, c.Frames(in))
	case "pause", "resume":
		d.Pause(verb == "pause")
	case "tick":
		after, err := time.ParseDuration(in.Word())
		in.check(err)
		d.Pass(after)
	case "stall", "read":
		d.Stall(verb == "stall")
	case "leave":
		d.Leave()
	default:
		in.check(errors.New("unknown"))
	}
}

// Input is the rest of a line.
type Input struct {
	t          *testing.T
	line, rest string
}

func (in *Input) check(err error) {
	in.t.Helper()
	if err != nil {
		in.Fail(err.Error())
	}
}

// Fail ends the test because of a senseless line.
func (in *Input) Fail(why string) {
	in.t.Helper()
	in.t.Fatalf("%s: %s", in.line, why)
}

// More reports whether there is anything left.
func (in *Input) More() bool {
	in.rest = strings.TrimSpace(in.rest)
	return in.rest != ""
}

// Word returns the text up to the next space.
func (in *Input) Word() (w string) {
	w, in.rest, _ = strings.Cut(strings.TrimLeft(in.rest, " "), " ")
	return w
}

// Number returns the next word if it is a number, and else takes nothing.
func (in *Input) Number() (n int, ok bool) {
	before := in.rest
	n, err := strconv.Atoi(in.Word())
	if err != nil {
		in.rest = before
	}
	return n, err == nil
}

// Text returns the text in quotes, N times if "*N" follows; "" if nothing is quoted next.
func (in *Input) Text() string {
	in.rest = strings.TrimLeft(in.rest, " ")
	q, err := strconv.QuotedPrefix(in.rest)
	if err != nil {
		return ""
	}
	in.rest = in.rest[len(q):]
	s, err := strconv.Unquote(q)
	in.check(err)
	if strings.HasPrefix(in.rest, "*") {
		n, err := strconv.Atoi(in.Word()[1:])
		in.check(err)
		s = strings.Repeat(s, n)
	}
	return s
}

// Quoted undoes Text, for a text of one character or of different ones.
func Quoted(s string) string {
	if n := len(s); n > 100 && s == strings.Repeat(s[:1], n) {
		return fmt.Sprintf("%q*%d", s[:1], n)
	}
	return strconv.Quote(s)
}

type transcript struct {
	peer               *Witness
	shown              func(got []byte) []string
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
	if len(got) > s.seen {
		for _, l := range s.shown(got[s.seen:]) {
			lines = append(lines, "  < "+l)
		}
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

// Witness is a peer that writes down the calls that it gets.
type Witness struct {
	// Inside is called when the Witness receives a message; may be nil.
	Inside func(transport.Conn)
	// Cause returns the text for the error of Closed; nil, or "": the usual text.
	Cause func(err error) string

	conn  transport.Conn
	mu    sync.Mutex
	heard []string
}

// Began implements Peer.
func (p *Witness) Began(c transport.Conn) { p.conn = c }

func (p *Witness) hears(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = append(p.heard, fmt.Sprintf(format, args...))
}

func (p *Witness) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	heard := p.heard
	p.heard = nil
	return heard
}

// Receive implements transport.Peer.
func (p *Witness) Receive(msg []byte) {
	p.hears("message %s", Quoted(string(msg)))
	if p.Inside != nil {
		p.Inside(p.conn)
	}
}

// Writable implements transport.Peer.
func (p *Witness) Writable() { p.hears("writable") }

// Closed implements transport.Peer.
func (p *Witness) Closed(err error) {
	var d protocol.Disconnect
	if p.Cause != nil {
		if text := p.Cause(err); text != "" {
			p.hears("%s", text)
			return
		}
	}
	switch {
	case errors.As(err, &d):
		p.hears("closed %d %q", d.Code, d.Reason)
	case strings.Contains(fmt.Sprint(err), "connection lost"):
		p.hears("lost")
	default:
		p.hears("closed: %v", err)
	}
}
