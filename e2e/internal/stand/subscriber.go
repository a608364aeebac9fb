package stand

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	fdelta "github.com/shadowspore/fossil-delta"

	"github.com/gyrohq/gyro/e2e/internal/account"
	"github.com/gyrohq/gyro/e2e/internal/wire"
	"github.com/gyrohq/gyro/internal/wsclient"
	"github.com/gyrohq/gyro/protocol"
)

const codeInsufficientDisconnect = 3010

// silenceTimeout bounds the time without any message, answerTimeout the wait for a reply.
const (
	silenceTimeout = 20 * time.Second
	answerTimeout  = 15 * time.Second
)

// Subscriber is a client with one recoverable subscription. Like an SDK, it reconnects and recovers from its position.
type Subscriber struct {
	Channel string

	// nodes are addresses. The subscriber stays with the first that it reaches.
	nodes []string
	// first is the number of the node that nodes begins with, node the index in nodes of the one in use, at its number.
	first int
	node  int
	at    atomic.Int32
	book  account.Book
	check func(account.Payload) error // of each publication
	fail  func(string)                // called with each event that must not happen
	end   func(string)                // called with the reason for the end of a connection
	// The last position, if positioned is set.
	offset     uint64
	epoch      string
	positioned bool
	// patches: the subscriber asks for patches (delta). patched: the server sends them, and base is the last payload.
	patches, patched bool
	base             []byte
	connected        bool

	subscribed atomic.Bool
}

type reply struct {
	ID    int `json:"id"`
	Error *struct {
		Code      int
		Message   string
		Temporary bool
	}
	Connect *struct {
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
	}
}

type publication struct {
	Data   json.RawMessage
	Delta  bool
	Offset uint64
}

func (s *Subscriber) run(ctx context.Context) {
	pause := 20 * time.Millisecond
	for ctx.Err() == nil {
		if s.session(ctx) {
			pause = 20 * time.Millisecond
		} else {
			s.node = (s.node + 1) % len(s.nodes) // the node cannot be reached
			pause = min(2*pause, 500*time.Millisecond)
		}
		s.subscribed.Store(false)
		wire.Sleep(ctx, pause/2+rand.N(pause))
	}
}

// session reports false if it could not connect.
func (s *Subscriber) session(ctx context.Context) bool {
	w, err := wire.Dial(ctx, s.nodes[s.node], "/connection/websocket")
	if err != nil {
		return false
	}
	defer w.Cut()
	stop := context.AfterFunc(ctx, w.Cut)
	defer stop()
	if s.connected {
		s.book.Note(func(c *account.Counts) { c.Reconnects++ })
	}
	s.connected = true
	s.at.Store(int32((s.first + s.node) % len(s.nodes)))
	c := &connection{s: s, ctx: ctx, conn: w}
	for err = c.begin(); err == nil; {
		err = c.read()
	}
	s.ended(err)
	return true
}

func (s *Subscriber) ended(err error) {
	var code uint32
	if end := (*wsclient.CloseError)(nil); errors.As(err, &end) {
		code = end.Code
	}
	s.end(account.Brief(err))
	switch {
	case code == codeInsufficientDisconnect:
		s.book.Note(func(c *account.Counts) { c.Insufficient++ })
	case protocol.Disconnect{Code: code}.Terminal():
		s.refused(fmt.Sprintf("terminal disconnect: %v", err))
	case errors.Is(err, wire.ErrProtocol):
		s.refused(err.Error())
	}
}

func (s *Subscriber) refused(why string) {
	s.book.Note(func(c *account.Counts) { c.Refused++ })
	s.fail(s.Channel + ": " + why)
}

type connection struct {
	s    *Subscriber
	ctx  context.Context
	conn *wsclient.Conn
	id   int
	// due is the latest time of the reply to the last command; zero if there is none to wait for.
	due time.Time
}

func (c *connection) begin() error {
	c.id = 2
	c.due = time.Now().Add(answerTimeout)
	return c.send(`{"id":1,"connect":{}}` + "\n" + c.s.request(c.id))
}

func (c *connection) subscribe(pause time.Duration) error {
	wire.Sleep(c.ctx, pause/2+rand.N(pause))
	c.id++
	c.due = time.Now().Add(answerTimeout)
	return c.send(c.s.request(c.id))
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

func (c *connection) send(text string) error {
	return wire.Send(c.conn, []byte(text))
}

func (c *connection) read() error {
	if err := wire.Messages(c.conn, silenceTimeout, c.take); err != nil {
		return err
	}
	if !c.due.IsZero() && time.Now().After(c.due) {
		return fmt.Errorf("%w: no reply to a command within %v", wire.ErrProtocol, answerTimeout)
	}
	return nil
}

func (c *connection) take(r *reply) error {
	switch {
	case r.Error != nil:
		return c.failed(r.ID, r.Error.Code, r.Error.Message, r.Error.Temporary)
	case r.Subscribe != nil:
		c.due = time.Time{}
		return c.answered(r)
	case r.Push == nil:
		return nil
	case r.Push.Pub != nil:
		return c.s.receive(r.Push.Pub)
	case r.Push.Unsubscribe != nil:
		c.s.subscribed.Store(false)
		code := r.Push.Unsubscribe.Code
		if code < 2500 {
			return fmt.Errorf("%w: unsubscribed with code %d", wire.ErrProtocol, code)
		}
		if code == account.CodeInsufficient {
			c.s.book.Note(func(sum *account.Counts) { sum.Insufficient++ })
		}
		return c.subscribe(20 * time.Millisecond)
	}
	return nil
}

func (c *connection) failed(id, code int, message string, temporary bool) error {
	if id == 1 || !temporary && code != 100 {
		return fmt.Errorf("%w: command %d: error %d %s", wire.ErrProtocol, id, code, message)
	}
	return c.subscribe(200 * time.Millisecond)
}

func (c *connection) answered(r *reply) error {
	s, result := c.s, r.Subscribe
	if s.patches != result.Delta {
		return fmt.Errorf("%w: delta is %v, want %v", wire.ErrProtocol, result.Delta, s.patches)
	}
	s.patched, s.base = result.Delta, nil
	if !result.Recoverable {
		if s.book.Lossy {
			s.subscribed.Store(true)
			return nil
		}
		return fmt.Errorf("%w: the subscription is not recoverable", wire.ErrProtocol)
	}
	switch {
	case !s.positioned:
	case !result.WasRecovering:
		return fmt.Errorf("%w: no answer to the wish to recover", wire.ErrProtocol)
	case !result.Recovered:
		s.book.WasTold()
		s.offset = result.Offset
	case s.epoch != result.Epoch && s.epoch != "":
		return fmt.Errorf("%w: recovered over a change of the epoch", wire.ErrProtocol)
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

// receive takes live and recovered publications.
func (s *Subscriber) receive(p *publication) error {
	if s.positioned && p.Offset != s.offset+1 {
		s.refused(fmt.Sprintf("offset %d behind %d", p.Offset, s.offset))
	}
	s.offset = p.Offset
	data, err := s.data(p)
	if err != nil {
		return fmt.Errorf("%w: offset %d: %w", wire.ErrProtocol, p.Offset, err)
	}
	var content account.Payload
	if err := json.Unmarshal(data, &content); err != nil {
		return fmt.Errorf("%w: offset %d: %w in %q", wire.ErrProtocol, p.Offset, err, data)
	}
	if err := s.check(content); err != nil {
		s.refused(err.Error())
	}
	s.book.Receive(content.N)
	return nil
}

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
