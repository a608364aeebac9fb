package stand

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	fdelta "github.com/shadowspore/fossil-delta"
)

// Codes of the client protocol that a subscriber acts upon.
const (
	codeInsufficientUnsubscribe = 2500
	codeInsufficientDisconnect  = 3010
)

// dialTimeout bounds connecting; silenceTimeout a connection without any message,
// pings included. answerTimeout bounds a reply to a command.
const (
	dialTimeout    = 5 * time.Second
	silenceTimeout = 20 * time.Second
	answerTimeout  = 15 * time.Second
)

// Subscriber is a client with one recoverable subscription. Like an SDK, it
// reconnects and recovers from its position by itself.
type Subscriber struct {
	// Channel that it subscribes to.
	Channel string

	// nodes are the addresses of nodes; it stays with the first that it
	// reaches, beginning with its own.
	nodes []string
	// first is the number of the node that nodes begins with, at that of the node in
	// use.
	first int
	node  int
	at    atomic.Int32
	book  book
	check func(payload) error // looks at what came
	fail  func(string)        // told what must not happen
	end   func(string)        // told how a connection ended
	// last position, once recoverable.
	offset     uint64
	epoch      string
	positioned bool
	// patches is set if patches (delta) are wanted, patched if they were promised; base is
	// the last payload then.
	patches, patched bool
	base             []byte
	// connected is set once it has been.
	connected bool

	subscribed atomic.Bool
}

// reply is what a subscriber reads of a reply or push.
type reply struct {
	ID    int `json:"id"`
	Error *struct {
		Code      int
		Message   string
		Temporary bool
	}
	Connect *struct {
		// Client ID of the connection.
		Client string
	}
	Subscribe *struct {
		Recoverable   bool
		Recovered     bool
		WasRecovering bool `json:"was_recovering"`
		Delta         bool
		Epoch         string
		Offset        uint64
		Publications  []publication
	}
	Push *struct {
		Channel     string
		Pub         *publication
		Subscribe   *struct{}
		Unsubscribe *struct {
			Code   int
			Reason string
		}
		Disconnect *struct {
			Code   int
			Reason string
		}
	}
}

type publication struct {
	Data   json.RawMessage
	Delta  bool
	Offset uint64
}

// payload of a publication.
type payload struct {
	N    int64
	Text string
}

// run keeps the subscriber connected until ctx ends.
func (s *Subscriber) run(ctx context.Context) {
	pause := 20 * time.Millisecond
	for ctx.Err() == nil {
		if s.session(ctx) {
			pause = 20 * time.Millisecond
		} else {
			s.node = (s.node + 1) % len(s.nodes) // nobody is there
			pause = min(2*pause, 500*time.Millisecond)
		}
		s.subscribed.Store(false)
		wait(ctx, pause/2+rand.N(pause))
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// session is one connection; it reports whether it came about.
func (s *Subscriber) session(ctx context.Context) bool {
	w, err := dialWire(ctx, s.nodes[s.node], "/connection/websocket")
	if err != nil {
		return false
	}
	defer w.conn.Close()
	stop := context.AfterFunc(ctx, func() { w.conn.Close() })
	defer stop()
	if s.connected {
		s.book.note(func(c *Counts) { c.Reconnects++ })
	}
	s.connected = true
	s.at.Store(int32((s.first + s.node) % len(s.nodes)))
	l := &link{s: s, ctx: ctx, wire: w}
	for err = l.begin(); err == nil; {
		err = l.read()
	}
	s.ended(err)
	return true
}

// ended notes why a connection ended.
func (s *Subscriber) ended(err error) {
	code := 0
	if end := (*closed)(nil); errors.As(err, &end) {
		code = end.code
	}
	s.end(brief(err))
	switch {
	case code == codeInsufficientDisconnect:
		s.book.note(func(c *Counts) { c.Insufficient++ })
	case 3500 <= code && code < 4000, code >= 4500:
		s.refused(fmt.Sprintf("terminal disconnect: %v", err))
	case errors.Is(err, errProtocol):
		s.refused(err.Error())
	}
}

func (s *Subscriber) refused(why string) {
	s.book.note(func(c *Counts) { c.Refused++ })
	s.fail(s.Channel + ": " + why)
}

var errProtocol = errors.New("broken protocol")

// link is a connection of a subscriber.
type link struct {
	s    *Subscriber
	ctx  context.Context
	wire *wire
	id   int
	// due is when the reply to the command has to be there; zero if none is awaited.
	due time.Time
}

func (l *link) begin() error {
	l.id = 2
	l.due = time.Now().Add(answerTimeout)
	return l.send(`{"id":1,"connect":{}}` + "\n" + l.s.request(l.id))
}

// subscribe sends the command again after a pause.
func (l *link) subscribe(pause time.Duration) error {
	wait(l.ctx, pause/2+rand.N(pause))
	l.id++
	l.due = time.Now().Add(answerTimeout)
	return l.send(l.s.request(l.id))
}

func (s *Subscriber) request(id int) string {
	wishes := ""
	if s.patches {
		wishes = `,"delta":"fossil"`
	}
	if s.positioned {
		wishes += fmt.Sprintf(`,"recover":true,"offset":%d,"epoch":%q`, s.offset, s.epoch)
	}
	return fmt.Sprintf(`{"id":%d,"subscribe":{"channel":%q%s}}`, id, s.Channel, wishes)
}

func (l *link) send(text string) error {
	return l.wire.write(opText, []byte(text))
}

// read takes one frame.
func (l *link) read() error {
	frame, err := l.wire.read(silenceTimeout)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(frame)) {
		if strings.TrimSpace(line) == "{}" {
			if err := l.send("{}"); err != nil {
				return err
			}
			continue
		}
		var r reply
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return fmt.Errorf("%w: %w in %s", errProtocol, err, line)
		}
		if err := l.take(&r); err != nil {
			return err
		}
	}
	if !l.due.IsZero() && time.Now().After(l.due) {
		return fmt.Errorf("%w: no reply to a command within %v", errProtocol, answerTimeout)
	}
	return nil
}

// take acts on one message.
func (l *link) take(r *reply) error {
	switch {
	case r.Error != nil:
		return l.failed(r.ID, r.Error.Code, r.Error.Message, r.Error.Temporary)
	case r.Subscribe != nil:
		l.due = time.Time{}
		return l.answered(r)
	case r.Push == nil:
		return nil
	case r.Push.Pub != nil:
		return l.s.receive(r.Push.Pub)
	case r.Push.Unsubscribe != nil:
		l.s.subscribed.Store(false)
		code := r.Push.Unsubscribe.Code
		if code < 2500 {
			return fmt.Errorf("%w: unsubscribed with code %d", errProtocol, code)
		}
		if code == codeInsufficientUnsubscribe {
			l.s.book.note(func(c *Counts) { c.Insufficient++ })
		}
		return l.subscribe(20 * time.Millisecond)
	}
	return nil
}

// failed acts on an error reply.
func (l *link) failed(id, code int, message string, temporary bool) error {
	if id == 1 || !temporary && code != 100 {
		return fmt.Errorf("%w: command %d: error %d %s", errProtocol, id, code, message)
	}
	return l.subscribe(200 * time.Millisecond)
}

// answered takes the result of a subscribe command.
func (l *link) answered(r *reply) error {
	s, result := l.s, r.Subscribe
	if s.patches != result.Delta {
		return fmt.Errorf("%w: delta is %v, want %v", errProtocol, result.Delta, s.patches)
	}
	s.patched, s.base = result.Delta, nil
	if !result.Recoverable {
		if s.book.lossy {
			s.subscribed.Store(true)
			return nil
		}
		return fmt.Errorf("%w: the subscription is not recoverable", errProtocol)
	}
	switch {
	case !s.positioned:
	case !result.WasRecovering:
		return fmt.Errorf("%w: no answer to the wish to recover", errProtocol)
	case !result.Recovered:
		s.book.told()
		s.offset = result.Offset
	case s.epoch != result.Epoch && s.epoch != "":
		return fmt.Errorf("%w: recovered over a change of the epoch", errProtocol)
	}
	if !s.positioned {
		s.offset = result.Offset
	}
	s.epoch, s.positioned = result.Epoch, true
	for i := range result.Publications {
		if err := s.receive(&result.Publications[i]); err != nil {
			return err
		}
	}
	s.subscribed.Store(true)
	return nil
}

// receive takes a publication, live or recovered.
func (s *Subscriber) receive(p *publication) error {
	if s.positioned && p.Offset != s.offset+1 {
		s.refused(fmt.Sprintf("offset %d behind %d", p.Offset, s.offset))
	}
	s.offset = p.Offset
	data, err := s.data(p)
	if err != nil {
		return fmt.Errorf("%w: offset %d: %w", errProtocol, p.Offset, err)
	}
	var content payload
	if err := json.Unmarshal(data, &content); err != nil {
		return fmt.Errorf("%w: offset %d: %w in %q", errProtocol, p.Offset, err, data)
	}
	if err := s.check(content); err != nil {
		s.refused(err.Error())
	}
	s.book.receive(content.N)
	return nil
}

// data is the payload of a publication, which may come as a patch of the last.
func (s *Subscriber) data(p *publication) ([]byte, error) {
	if !s.patched {
		return p.Data, nil
	}
	var text string
	if err := json.Unmarshal(p.Data, &text); err != nil {
		return nil, err
	}
	data := []byte(text)
	if p.Delta {
		var err error
		if data, err = fdelta.Apply(s.base, []byte(text)); err != nil {
			return nil, fmt.Errorf("a patch of something else than %q: %w", s.base, err)
		}
	}
	s.base = data
	return data, nil
}
