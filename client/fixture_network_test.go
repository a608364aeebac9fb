package client

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro/internal/testkit/wstest/frametest"
	"github.com/gyrohq/gyro/internal/wsclient"
)

type FixtureStore interface {
	Load() (name string, at time.Time)
	Save(name string, at time.Time)
}

// FixtureFallback is Fallback of package httplink, which imports this one: fixture_link_test.go sets it.
var FixtureFallback func(s FixtureStore, transports ...Transport) Transport

// memory remembers what a fixture says, and notes what the client stores.
type memory struct {
	r    *runner
	name string
	at   time.Time
}

func (m *memory) Load() (string, time.Time) { return m.name, m.at }

func (m *memory) Save(name string, _ time.Time) { m.r.leave("store " + name) }

// over returns the transport of a client: one without a name, or several.
func (r *runner) over(o *options) Transport {
	if o.Transports == nil {
		return r.transport("")
	}
	m := &memory{r: r, name: o.Remembered.Transport}
	if m.name != "" {
		ago, err := time.ParseDuration(o.Remembered.Ago)
		r.must(err)
		m.at = time.Now().Add(-ago)
	}
	all := make([]Transport, len(o.Transports))
	for i, name := range o.Transports {
		all[i] = r.transport(name)
	}
	return FixtureFallback(m, all...)
}

func (r *runner) transport(name string) Transport {
	return func(o *Options) (Dialer, error) {
		dial := func(ctx context.Context) (Conn, error) {
			return r.dial(ctx, strings.TrimSpace("dial "+name), o.MessageLimit)
		}
		return Dialer{Name: func() string { return name }, Dial: dial}, nil
	}
}

// dial plays the network. All connections are WebSockets, whatever the names of their transports.
func (r *runner) dial(ctx context.Context, line string, limit int) (Conn, error) {
	answer := make(chan error, 1)
	r.mu.Lock()
	r.left = append(r.left, line)
	r.dialed = answer
	r.mu.Unlock()
	select {
	case err := <-answer:
		if err != nil {
			return nil, err
		}
		n := &network{r: r, more: make(chan struct{}, 1), ended: make(chan struct{})}
		r.mu.Lock()
		r.conn = n
		r.mu.Unlock()
		return wsclient.Over(n, false, limit), nil
	case <-ctx.Done():
		r.leave("C close")
		return nil, ctx.Err()
	}
}

func (r *runner) dialedWith(word string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dialed == nil {
		r.fatalf("nobody dials")
	}
	var err error
	if word == "refuse" {
		err = errors.New("refused")
	}
	r.dialed <- err
	r.dialed = nil
}

func (r *runner) leave(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = append(r.left, line)
}

// network is below a WebSocket, with the runner at its other end.
type network struct {
	r     *runner
	once  sync.Once
	ended chan struct{} // the client has closed it

	mu     sync.Mutex
	frames [][]byte // that the client has not read
	last   bool     // nothing follows them
	more   chan struct{}
}

func (n *network) Write(p []byte) (int, error) {
	n.mu.Lock()
	last := n.last
	n.mu.Unlock()
	if last {
		return 0, io.ErrClosedPipe
	}
	mask := map[byte]int{126: 4, 127: 10}[p[1]&0x7F] // where it is; behind two bytes if the size is in them
	mask = max(mask, 2)
	payload := bytes.Clone(p[mask+4:])
	for i := range payload {
		payload[i] ^= p[mask+i&3]
	}
	if p[0]&0x0F == frametest.OpText {
		for line := range bytes.Lines(payload) {
			n.r.leave("C " + strings.TrimSuffix(string(line), "\n"))
		}
	}
	return len(p), nil
}

// Read reads of one frame at a time.
func (n *network) Read(p []byte) (int, error) {
	for {
		n.mu.Lock()
		if len(n.frames) > 0 {
			read := copy(p, n.frames[0])
			n.frames[0] = n.frames[0][read:]
			if len(n.frames[0]) == 0 {
				n.frames = n.frames[1:]
			}
			n.mu.Unlock()
			return read, nil
		}
		last := n.last
		n.mu.Unlock()
		if last {
			return 0, io.ErrUnexpectedEOF
		}
		select {
		case <-n.more:
		case <-n.ended:
			return 0, io.ErrClosedPipe
		}
	}
}

func (n *network) Close() error {
	n.once.Do(func() {
		n.r.leave("C close")
		close(n.ended)
	})
	return nil
}

func (n *network) unread() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.frames)
}

func (n *network) send(f frametest.Frame) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.frames = append(n.frames, frametest.Unmasked(f))
	n.wake()
}

// end: nothing follows. What the client does with the connection does not count from then on.
func (n *network) end() {
	n.once.Do(func() {})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = true
	n.wake()
}

func (n *network) wake() {
	select {
	case n.more <- struct{}{}:
	default:
	}
}

func (r *runner) server(text string) {
	r.mu.Lock()
	n := r.conn
	r.mu.Unlock()
	if n == nil {
		r.fatalf("there is no connection")
	}
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "raw":
		n.send(frametest.Text(rest))
	case "bytes":
		frame, err := hex.DecodeString(rest)
		r.must(err)
		n.send(frametest.Binary(string(frame)))
	case "drop":
		n.end()
	case "close":
		number, reason, _ := strings.Cut(rest, " ")
		code, err := strconv.ParseUint(number, 10, 16)
		r.must(err)
		n.send(frametest.Close(uint16(code), reason))
		n.end()
	default:
		n.send(frametest.Text(strings.ReplaceAll(text, " | ", "\n")))
	}
}
