package pubsub

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/broker/redis/internal/resp"
)

// fake is a Redis server in memory, for virtual time.
type fake struct {
	resp2 bool

	mu       sync.Mutex
	refuse   error             // dialing fails
	freeze   chan struct{}     // not nil: nothing is read or written until it is closed
	mute     bool              // publishes are accepted, not delivered
	unsend   error             // publishes fail
	reject   map[string]string // command -> error
	deaf     map[string]bool   // commands that are not answered
	clients  map[*peer]struct{}
	dials    []time.Time
	commands []string // verb and number of arguments
}

// peer is a client of a fake. What it is sent waits like in the buffers of a network.
type peer struct {
	conn     net.Conn
	channels map[string]struct{}
	out      chan []byte
	gone     chan struct{}
}

func (p *peer) send(data []byte) {
	if len(data) == 0 {
		return
	}
	select {
	case p.out <- data:
	case <-p.gone:
	}
}

func (p *peer) write() {
	for {
		select {
		case data := <-p.out:
			p.conn.Write(data) // the reader notices when the client has gone
		case <-p.gone:
			return
		}
	}
}

func newFake() *fake {
	return &fake{clients: make(map[*peer]struct{}), reject: make(map[string]string), deaf: make(map[string]bool)}
}

func (s *fake) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *fake) dial(context.Context) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dials = append(s.dials, time.Now())
	if s.refuse != nil {
		return nil, s.refuse
	}
	near, far := net.Pipe()
	p := &peer{conn: far, channels: make(map[string]struct{}), out: make(chan []byte, 10_000), gone: make(chan struct{})}
	s.clients[p] = struct{}{}
	go p.write()
	go s.serve(p)
	return near, nil
}

func (s *fake) frozen() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.freeze == nil {
		ch := make(chan struct{})
		close(ch)
		return ch
	}
	return s.freeze
}

func (s *fake) serve(p *peer) {
	defer s.drop(p)
	in := bufio.NewReader(p.conn)
	for {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		<-s.frozen()
		s.do(p, args)
	}
}

func (s *fake) drop(p *peer) {
	s.set(func() { delete(s.clients, p) })
	close(p.gone)
	p.conn.Close()
}

// cut breaks all connections.
func (s *fake) cut() {
	s.set(func() {
		for p := range s.clients {
			p.conn.Close()
		}
	})
}

// say sends something to all clients.
func (s *fake) say(data []byte) {
	s.set(func() {
		for p := range s.clients {
			p.send(data)
		}
	})
}

func (s *fake) do(p *peer, args []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.send(s.reply(p, args))
}

func (s *fake) reply(p *peer, args []string) []byte {
	verb := args[0]
	s.commands = append(s.commands, fmt.Sprintf("%s %d", verb, len(args)-1))
	channels := p.channels
	switch {
	case s.deaf[verb]:
		return nil
	case s.reject[verb] != "":
		return []byte("-" + s.reject[verb] + "\r\n")
	case verb == "PING" && s.resp2:
		return []byte("*2\r\n$4\r\npong\r\n$0\r\n\r\n")
	case verb == "PING":
		return []byte("+PONG\r\n")
	}
	var out []byte
	for _, ch := range args[1:] {
		if strings.HasSuffix(verb, "UNSUBSCRIBE") {
			delete(channels, ch)
		} else {
			channels[ch] = struct{}{}
		}
		out = s.event(out, strings.ToLower(verb), ch)
		out = fmt.Appendf(out, ":%d\r\n", len(channels))
	}
	return out
}

func (s *fake) event(out []byte, name, ch string) []byte {
	kind := ">"
	if s.resp2 {
		kind = "*"
	}
	return resp.AppendBulk(resp.AppendBulk(append(out, kind+"3\r\n"...), name), ch)
}

func readCommand(in *bufio.Reader) ([]string, error) {
	number := func(kind byte) (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if line[0] != kind {
			return 0, fmt.Errorf("%q", line)
		}
		return strconv.Atoi(line[1 : len(line)-2])
	}
	n, err := number('*')
	var args []string
	for ; n > 0 && err == nil; n-- {
		var size int
		if size, err = number('$'); err == nil {
			data := make([]byte, size+2)
			_, err = io.ReadFull(in, data)
			args = append(args, string(data[:size]))
		}
	}
	return args, err
}

// publish is PUBLISH by another connection.
func (s *fake) publish(ctx context.Context, channel string, data []byte) error {
	select {
	case <-s.frozen():
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unsend != nil || s.mute {
		return s.unsend
	}
	out := resp.AppendBulk(s.event(nil, "message", channel), string(data))
	for p := range s.clients {
		if _, ok := p.channels[channel]; ok {
			p.send(out)
		}
	}
	return nil
}

// channels of all clients, but for the canaryChannel channel.
func (s *fake) channels() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.clients {
		for ch := range p.channels {
			if ch != canaryChannel {
				all = append(all, ch)
			}
		}
	}
	slices.Sort(all)
	return all
}

const canaryChannel = "centrifugo.shard.0"

// stand is a Conn at a fake.
type stand struct {
	*testing.T
	server *fake
	cfg    Config
	conn   *Conn

	mu   sync.Mutex
	log  []string      // what the callbacks were called with
	hold chan struct{} // Message waits for it
	over chan struct{} // the test has ended
}

// newStand must be used in a bubble; the Conn ends with it.
func newStand(t *testing.T) *stand {
	s := &stand{T: t, server: newFake(), over: make(chan struct{})}
	s.cfg = Config{
		Name: "shard 0", Dial: s.server.dial, Publish: s.server.publish, CanaryChannel: canaryChannel,
		Message: func(channel, payload []byte, _ *Chunk) {
			s.note(fmt.Sprintf("%s %s", channel, payload))
			if hold := s.held(); hold != nil {
				select {
				case <-hold:
				case <-s.over:
				}
			}
		},
		Resubscribed: func(lost bool) { s.note(fmt.Sprint("resubscribed ", lost)) },
		Overflow: func(channels []string) {
			slices.Sort(channels)
			s.note(fmt.Sprint("overflow ", channels))
		},
		Random: func() float64 { return 0.5 },
	}
	return s
}

func (s *stand) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, text)
}

func (s *stand) held() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hold
}

// start connects, and waits until the connection is proven.
func (s *stand) start() {
	s.Helper()
	s.conn = New(s.cfg)
	if err := s.conn.Start(s.Context()); err != nil {
		s.Fatal(err)
	}
	synctest.Wait()
	s.healthy()
}

// events returns what the callbacks were called with since the last call.
func (s *stand) events() []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return log
}

func (s *stand) expect(want ...string) {
	s.Helper()
	if got := s.events(); !slices.Equal(got, want) {
		s.Fatalf("callbacks %q, want %q", got, want)
	}
}

func (s *stand) subscribe(channels ...string) {
	s.Helper()
	if err := s.conn.Subscribe(s.Context(), channels...); err != nil {
		s.Fatal(err)
	}
}

func (s *stand) publish(channel, data string) {
	s.Helper()
	if err := s.server.publish(s.Context(), channel, []byte(data)); err != nil {
		s.Fatal(err)
	}
}

func (s *stand) healthy() {
	s.Helper()
	if _, err := s.conn.Health(); err != nil {
		s.Fatal("health:", err)
	}
}

// unhealthy demands an error with this text.
func (s *stand) unhealthy(want string) {
	s.Helper()
	if _, err := s.conn.Health(); err == nil || !strings.Contains(err.Error(), want) {
		s.Fatalf("health: %v, want %q", err, want)
	}
}

// await lets time pass until ok, and returns how much.
func (s *stand) await(most time.Duration, what string, ok func() bool) time.Duration {
	s.Helper()
	begin := time.Now()
	for {
		synctest.Wait()
		if ok() {
			return time.Since(begin)
		}
		if time.Since(begin) > most {
			_, err := s.conn.Health()
			s.Fatalf("not within %s: %s; health: %v", most, what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *stand) reconnects(n uint64) func() bool {
	return func() bool { return s.conn.Stats().Reconnects >= n }
}

func bubble(t *testing.T, f func(s *stand)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		defer func() {
			close(s.over)
			if s.conn != nil {
				s.conn.Close()
			}
			s.server.set(func() {
				if s.server.freeze != nil {
					close(s.server.freeze)
				}
			})
		}()
		f(s)
	})
}

var errRefused = errors.New("connection refused")
