package httplink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/internal/wsclient"
)

// network has transports that work if their name is in well.
type network struct {
	mu    sync.Mutex
	well  map[string]bool
	tried []string
	drop  func()
	name  string
	at    time.Time
}

func (n *network) Load() (string, time.Time)      { return n.name, n.at }
func (n *network) Save(name string, at time.Time) { n.name, n.at = name, at }

func (n *network) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	tried := n.tried
	n.tried = nil
	return tried
}

func (n *network) set(well ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.well = make(map[string]bool)
	for _, name := range well {
		n.well[name] = true
	}
}

type line struct {
	frames chan string
	ended  chan struct{}
	once   sync.Once
}

// Write answers a connect command.
func (l *line) Write(frame []byte) error {
	var command struct{ ID int }
	err := json.Unmarshal(frame, &command)
	l.frames <- fmt.Sprintf(`{"id":%d,"connect":{"client":"c"}}`, command.ID)
	return err
}

func (l *line) Read(handle func([]byte) error) error {
	for {
		select {
		case f := <-l.frames:
			if err := handle([]byte(f)); err != nil {
				return err
			}
		case <-l.ended:
			return io.EOF
		}
	}
}
func (l *line) Close(uint16, string) { l.Cut() }
func (l *line) Cut()                 { l.once.Do(func() { close(l.ended) }) }

func (n *network) transport(name string) client.Transport {
	return func(*client.Options) (client.Dialer, error) {
		return client.Dialer{Name: func() string { return name }, Dial: func(context.Context) (client.Conn, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.tried = append(n.tried, name)
			if !n.well[name] {
				return nil, errors.New("blocked")
			}
			l := &line{frames: make(chan string, 1), ended: make(chan struct{})}
			n.drop = l.Cut
			return l, nil
		}}, nil
	}
}

func visit(t *testing.T, n *network, store Store, play func()) {
	c, err := client.NewOver(Fallback(store, n.transport("ws"), n.transport("http"), n.transport("sse")), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = c.Connect(ctx) }()
	synctest.Wait()
	play()
}

func expect(t *testing.T, n *network, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := n.take(); !slices.Equal(got, want) {
		t.Errorf("tried %v, want %v", got, want)
	}
}

// TestOrder is the order of docs/sdk-spec.md.
func TestOrder(t *testing.T) {
	for name, play := range map[string]func(t *testing.T, n *network){
		"the next one at once, the backoff after the last": func(t *testing.T, n *network) {
			n.set()
			visit(t, n, nil, func() {
				expect(t, n, "ws", "http", "sse")
				n.set("http")
				time.Sleep(time.Second)
				expect(t, n, "ws", "http")
			})
		},
		"what worked is tried first, a better one again after ten minutes": func(t *testing.T, n *network) {
			n.set("http")
			visit(t, n, nil, func() {
				expect(t, n, "ws", "http")
				n.set("http", "ws")
				n.drop()
				time.Sleep(time.Second)
				expect(t, n, "http")
				time.Sleep(10 * time.Minute)
				expect(t, n)
				n.drop()
				time.Sleep(time.Second)
				expect(t, n, "ws")
			})
		},
		"after two failures of what worked the search begins anew": func(t *testing.T, n *network) {
			n.set("http")
			visit(t, n, nil, func() {
				expect(t, n, "ws", "http")
				n.set("sse")
				n.drop()
				time.Sleep(time.Second)
				expect(t, n, "http")
				time.Sleep(3 * time.Second)
				expect(t, n, "http", "ws", "http", "sse")
			})
		},
		"the store remembers for an hour": func(t *testing.T, n *network) {
			n.set("sse")
			visit(t, n, n, func() { expect(t, n, "ws", "http", "sse") })
			visit(t, n, n, func() { expect(t, n, "sse") })
			time.Sleep(time.Hour)
			visit(t, n, n, func() { expect(t, n, "ws", "http", "sse") })
			n.name = "another"
			visit(t, n, n, func() { expect(t, n, "ws", "http", "sse") })
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { play(t, new(network)) }) })
	}
}

// TestFrames: frames are whole, however the answer is cut.
func TestFrames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 9000)
	for _, one := range []struct {
		text   string
		binary bool
		events bool
		want   []string
	}{
		{"{\"a\":\"ü\"}\n\r\n{}\n" + long + "\nhalf", false, false, []string{`{"a":"ü"}`, `{}`, long}},
		{"\r\n:comment\r\nevent: x\ndata: {\"a\":1}\n\ndata:{}\r\n\r\ndata: [\ndata: 1]\n\ndata: half\n", false, true, []string{`{"a":1}`, `{}`, "[\n1]"}},
		{"\x00\x03abc\x84\x01" + long[:132] + "\x05half", true, false, []string{"\x00", "\x03abc", "\x84\x01" + long[:132]}},
	} {
		rapid.Check(t, func(rt *rapid.T) {
			var in io.Reader = strings.NewReader(one.text)
			if rapid.Bool().Draw(rt, "halves") {
				in = iotest.HalfReader(in)
			} else if step := rapid.IntRange(1, 5000).Draw(rt, "step"); step > 0 {
				in = chunks{in, step}
			}
			var got []string
			c := &conn{dialer: &dialer{binary: one.binary, events: one.events}}
			err := c.frames(wsclient.NewStreamReader(in, 10_000), func(f []byte) error {
				got = append(got, string(f))
				return nil
			})
			if !slices.Equal(got, one.want) || !errors.Is(err, errEnd) && !errors.Is(err, io.ErrUnexpectedEOF) {
				rt.Fatalf("%.300q %v", got, err)
			}
		})
		c := &conn{dialer: &dialer{binary: one.binary, events: one.events}}
		if err := c.frames(wsclient.NewStreamReader(strings.NewReader(one.text), 5), func([]byte) error { return nil }); !errors.Is(err, wsclient.ErrTooBig) {
			t.Errorf("%v", err)
		}
	}
}

type chunks struct {
	r    io.Reader
	step int
}

func (c chunks) Read(p []byte) (int, error) { return c.r.Read(p[:min(len(p), c.step)]) }

// TestQuote: the body of a post has JSON strings.
func TestQuote(t *testing.T) {
	for _, text := range []string{``, `{"a":"\"<>&\u2028"}`, "ü\t"} {
		c := &conn{dialer: &dialer{limit: 1000}, session: "s", node: "n", queue: [][]byte{quote([]byte(text)), quote([]byte(`{}`))}}
		c.ctx, c.end = context.WithCancelCause(t.Context())
		if got := string(c.body()); !strings.Contains(got, fmt.Sprintf(`"data":"%s\n{}"`, quote([]byte(text)))) {
			t.Error(got)
		}
		c.Cut()
	}
}
