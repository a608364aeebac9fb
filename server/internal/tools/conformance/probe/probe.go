// Package probe is a client that expects certain messages. Any other message ends the probe by a panic, which the caller
// recovers: with a Failure, which names the section of the specification, or, where no judgement is possible, with a
// Skip.
package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/apicall"
	"github.com/gyrohq/gyro/server/internal/tools/conformance/talk"
)

// Failure ends a probe that a server has not passed.
type Failure struct {
	// Section of the specification; empty for the section of the check.
	Section string
	Text    string
}

// Skip is the reason why a probe cannot be made.
type Skip string

// Server is a server, and how it is used.
type Server struct {
	Dialer   *talk.Dialer
	Encoding protocol.Encoding
	TLS      *tls.Config
	// Token of all connections. Sign, if set, signs others, which end after ttl (0: never; below 0: they have ended).
	// SignSubscription signs subscription tokens.
	Token            string
	Sign             func(ttl time.Duration) (string, error)
	SignSubscription func(channel string, ttl time.Duration) (string, error)
	SignKeys         func(channel string, keys []string, ttl time.Duration) string
	User             string
	API              *apicall.Caller
	// Timeout bounds the wait for a message that must come, Moment for one that must not come, where no other message
	// shows its absence.
	Timeout, Moment time.Duration
	// Run begins the names of channels, after their prefix.
	Run string
}

// Probe is one conversation with a server, of several connections. One goroutine uses it.
type Probe struct {
	*Server
	Ctx    context.Context
	Script *talk.Script
	Name   string
	// Signed: subscriptions need a token. ByClients: clients may publish.
	Prefix            string
	Signed, ByClients bool

	clients []*Client
	named   int // channels
}

// New returns a probe without connections.
func New(ctx context.Context, s *Server, name string) *Probe {
	return &Probe{Server: s, Ctx: ctx, Script: new(talk.Script), Name: strings.ReplaceAll(name, ".", "-")}
}

// Close ends all connections.
func (t *Probe) Close() {
	for _, c := range t.clients {
		c.Conn.Close()
	}
}

// Fail ends the probe.
func (t *Probe) Fail(format string, args ...any) { panic(Failure{Text: fmt.Sprintf(format, args...)}) }

// Skip ends the probe without a judgement.
func (t *Probe) Skip(format string, args ...any) { panic(Skip(fmt.Sprintf(format, args...))) }

// Want fails unless something holds.
func (t *Probe) Want(holds bool, format string, args ...any) {
	if !holds {
		t.Fail(format, args...)
	}
}

// Channel returns the name of a new channel.
func (t *Probe) Channel() string {
	t.named++
	return fmt.Sprintf("%s%s%s-%s-%d", t.Prefix, t.Run, strings.ToLower(t.Encoding.String()), t.Name, t.named)
}

// Data is a payload that no other of the probe's channels has.
func (t *Probe) Data(n int) []byte { return fmt.Appendf(nil, `{"n":%d,"of":"%s"}`, n, t.Name) }

// Publish publishes by c if clients may, else by the API.
func (t *Probe) Publish(c *Client, channel string, data []byte) {
	if t.ByClients {
		c.Publish(channel, data)
		return
	}
	t.Backend("publish", map[string]any{"channel": channel, "data": Raw(data)})
}

// Backend calls a method of the API.
func (t *Probe) Backend(method string, request any) {
	if err := t.API.Call(t.Ctx, method, request, new(struct{})); err != nil {
		t.Fail("the API: %s: %v", method, err)
	}
}

// Client is a connection, with the received messages that no method has returned yet. Its methods end the probe if
// another message comes than the expected one.
type Client struct {
	*Probe
	Conn  *talk.Conn
	ID    string
	Hello *protocol.ConnectResult
	// Pending are replies and pushes in their order, Pings when pings came.
	Pending []*protocol.Reply
	Pings   []time.Time
	Expects map[uint32]bool

	lastID uint32
}

// ConnToken returns the token of a connection.
func (t *Probe) ConnToken(ttl time.Duration) string {
	if t.Sign == nil {
		return t.Token
	}
	token, err := t.Sign(ttl)
	if err != nil {
		t.Fail("a token cannot be signed: %v", err)
	}
	return token
}

// Open opens a connection. Streams have commands in the first frame; WebSockets may have none.
func (t *Probe) Open(first ...*protocol.Command) *Client {
	if len(first) == 0 {
		return t.OpenFrame(nil)
	}
	return t.OpenFrame(t.Frame(first...))
}

// Frame encodes commands.
func (t *Probe) Frame(cmds ...*protocol.Command) []byte {
	frame, err := talk.Frame(t.Encoding, cmds...)
	if err != nil {
		t.Fail("a command cannot be encoded: %v", err)
	}
	return frame
}

// OpenFrame opens a connection with a first frame, which may be malformed.
func (t *Probe) OpenFrame(first []byte) *Client {
	conn, err := talk.Dial(t.Ctx, t.Dialer, first, t.Script, fmt.Sprint(len(t.clients)+1))
	if err != nil {
		t.Fail("cannot connect: %v", err)
	}
	c := &Client{Probe: t, Conn: conn, Expects: make(map[uint32]bool)}
	t.clients = append(t.clients, c)
	return c
}

// Hi returns a connect command with the token.
func (t *Probe) Hi() *protocol.Command {
	name := "conformance"
	if t.Encoding == protocol.Protobuf {
		name = "go" // servers know by the name which clients understand numbers instead of names there
	}
	return &protocol.Command{ID: 1, Connect: &protocol.ConnectRequest{Token: t.ConnToken(0), Name: name}}
}

// Connect opens a connection and connects.
func (t *Probe) Connect() *Client { return t.ConnectBy(t.Hi()) }

// ConnectBy opens a connection and connects by a command.
func (t *Probe) ConnectBy(hello *protocol.Command) *Client {
	c := t.Open(hello)
	c.Connected(hello.ID)
	return c
}

// Connected takes the reply to connect.
func (c *Client) Connected(id uint32) {
	c.Expects[id] = true
	c.lastID = max(c.lastID, id)
	r := c.Reply(id)
	c.Want(r.Error == nil, "connect is answered by error %s", Describe(r.Error))
	c.Want(r.Connect != nil, "the reply to connect has no result")
	c.Hello, c.ID = r.Connect, r.Connect.Client
	c.Conn.Answer(r.Connect.Pong)
	c.Conn.Address(r.Connect.Node, r.Connect.Session)
}

// Numbered gives a command an id.
func (c *Client) Numbered(cmd *protocol.Command) *protocol.Command {
	c.lastID++
	cmd.ID = c.lastID
	return cmd
}

// Send sends commands in one frame, and expects a reply to each that has an id.
func (c *Client) Send(cmds ...*protocol.Command) {
	for _, cmd := range cmds {
		if cmd.ID > 0 && cmd.Send == nil {
			c.Expects[cmd.ID] = true
		}
	}
	c.Conn.Send(c.Frame(cmds...))
}

// Call sends a command and returns its reply.
func (c *Client) Call(cmd *protocol.Command) *protocol.Reply {
	c.Send(c.Numbered(cmd))
	r := c.Reply(cmd.ID)
	if r.Error == nil && !answers(cmd, r) {
		panic(Failure{"protocol-rules.md#replies", "a reply has neither an error nor the result of its command"})
	}
	return r
}

func answers(cmd *protocol.Command, r *protocol.Reply) bool {
	for _, kind := range []struct{ asked, answered bool }{
		{cmd.Connect != nil, r.Connect != nil}, {cmd.Subscribe != nil, r.Subscribe != nil}, {cmd.Unsubscribe != nil, r.Unsubscribe != nil},
		{cmd.Publish != nil, r.Publish != nil}, {cmd.Presence != nil, r.Presence != nil}, {cmd.PresenceStats != nil, r.PresenceStats != nil},
		{cmd.History != nil, r.History != nil}, {cmd.RPC != nil, r.RPC != nil}, {cmd.Refresh != nil, r.Refresh != nil},
		{cmd.SubRefresh != nil, r.SubRefresh != nil},
	} {
		if kind.asked {
			return kind.answered
		}
	}
	return true
}

// OK is call for a command that has to succeed.
func (c *Client) OK(cmd *protocol.Command) *protocol.Reply {
	r := c.Call(cmd)
	c.Succeeded(r)
	return r
}

// Succeeded fails if a reply is an error.
func (c *Client) Succeeded(r *protocol.Reply) {
	c.Want(r.Error == nil, "the command is answered by error %s", Describe(r.Error))
}

// Refused is call for a command that the server must answer with one of some errors.
func (c *Client) Refused(cmd *protocol.Command, codes ...uint32) {
	r := c.Call(cmd)
	c.Want(r.Error != nil, "the command succeeds; expected error %s", list(codes))
	c.Want(slices.Contains(codes, r.Error.Code), "error %s, expected %s", Describe(r.Error), list(codes))
	c.CheckError(r.Error)
}

// CheckError compares an error of the protocol with the table.
func (c *Client) CheckError(e *protocol.Error) {
	if e.Message == "" {
		panic(Failure{"protocol-rules.md#replies", fmt.Sprintf("error %d has no message", e.Code)})
	}
	known, ok := errorsByCode[e.Code]
	if !ok {
		return
	}
	if e.Message != known.Message && !strings.HasPrefix(e.Message, known.Message+":") {
		panic(Failure{"codes.md#errors-of-commands", fmt.Sprintf("error %s, whose text is %q", Describe(e), known.Message)})
	}
	if e.Temporary != known.Temporary {
		panic(Failure{"codes.md#errors-of-commands", fmt.Sprintf("error %s, for which temporary is %t", Describe(e), known.Temporary)})
	}
}

// Describe shows an error.
func Describe(e *protocol.Error) string {
	if e == nil {
		return "none"
	}
	return fmt.Sprintf("%d %q (temporary: %t)", e.Code, e.Message, e.Temporary)
}

func list(codes []uint32) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(codes), " ", " or "), "[]")
}

// Reply waits for the reply to a command.
func (c *Client) Reply(id uint32) *protocol.Reply {
	return c.Await(fmt.Sprintf("a reply to command %d", id), c.Timeout, func(r *protocol.Reply) bool { return r.ID == id })
}

// Push waits for the first push that satisfies a function.
func (c *Client) Push(what string, is func(*protocol.Push) bool) *protocol.Push {
	return c.Await(what, c.Timeout, func(r *protocol.Reply) bool { return r.Push != nil && is(r.Push) }).Push
}

// Publication waits for the next publication of the connection.
func (c *Client) Publication(what string) *protocol.Push {
	return c.Push("the publication "+what, func(p *protocol.Push) bool { return p.Pub != nil })
}

// Await returns the first reply that satisfies a function, of the received ones first.
func (c *Client) Await(what string, within time.Duration, is func(*protocol.Reply) bool) *protocol.Reply {
	if i := slices.IndexFunc(c.Pending, is); i >= 0 {
		r := c.Pending[i]
		c.Pending = slices.Delete(c.Pending, i, i+1)
		return r
	}
	for deadline := time.Now().Add(within); ; {
		r, err := c.Take(time.Until(deadline))
		switch {
		case errors.Is(err, talk.ErrTimeout):
			c.Fail("%s does not come within %v", what, within)
		case err != nil:
			c.Broke(err, "waiting for "+what)
		case r == nil: // a ping
		case is(r):
			return r
		default:
			c.Pending = append(c.Pending, r)
		}
	}
}

// Take returns the next reply, or nil for a ping.
func (c *Client) Take(within time.Duration) (*protocol.Reply, error) {
	r, at, err := c.Conn.Next(c.Ctx, within)
	if err != nil {
		return nil, err
	}
	if r.ID > 0 {
		if !c.Expects[r.ID] {
			panic(Failure{"protocol-rules.md#replies", fmt.Sprintf("a reply has the id %d, which is that of no command that waits for one", r.ID)})
		}
		delete(c.Expects, r.ID)
		return r, nil
	}
	if r.Error != nil {
		panic(Failure{"protocol-rules.md#replies", "an error has no id"})
	}
	if r.Push != nil {
		return r, nil
	}
	c.Pings = append(c.Pings, at)
	return nil, nil
}

// Next returns the next reply that is not a ping.
func (c *Client) Next(within time.Duration) (*protocol.Reply, error) {
	for deadline := time.Now().Add(within); ; {
		if r, err := c.Take(time.Until(deadline)); r != nil || err != nil {
			return r, err
		}
	}
}

// Broke ends the probe because of an error of the connection.
func (c *Client) Broke(err error, doing string) {
	var v *talk.Violation
	var end *talk.EndError
	switch {
	case errors.As(err, &v):
		panic(Failure{v.Section, v.Text})
	case errors.As(err, &end):
		c.Fail("%s: %v", doing, err)
	default:
		c.Fail("%s: %v", doing, err)
	}
}

// Ends waits until the server closes the connection with one of some codes, whatever comes before.
func (c *Client) Ends(codes ...uint32) talk.End { return c.EndsWithin(c.Timeout, codes...) }

func (c *Client) EndsWithin(within time.Duration, codes ...uint32) talk.End {
	for deadline := time.Now().Add(within); ; {
		r, err := c.Take(time.Until(deadline))
		var end *talk.EndError
		switch {
		case errors.Is(err, talk.ErrTimeout):
			c.Fail("the server does not close the connection within %v; expected %s", within, list(codes))
		case errors.As(err, &end):
			c.Want(slices.Contains(codes, end.Code), "%v, expected %s", err, list(codes))
			c.checkEnd(end.End)
			return end.End
		case err != nil:
			c.Broke(err, "waiting for the end of the connection")
		case r != nil:
			c.Pending = append(c.Pending, r)
		}
	}
}

func (c *Client) checkEnd(e talk.End) {
	bad := func(section, format string, args ...any) { panic(Failure{section, fmt.Sprintf(format, args...)}) }
	switch {
	case e.Code < 3000 || e.Code == 3000:
		return // of WebSocket
	case e.Reason == "":
		bad(talk.SectionClosing, "code %d has no reason", e.Code)
	case len(e.Reason) > 123:
		bad(talk.SectionClosing, "the reason of code %d has %d bytes; 123 are the limit", e.Code, len(e.Reason))
	case isJSON(e.Reason):
		bad(talk.SectionClosing, "the reason of code %d is JSON, which clients take for something else: %q", e.Code, e.Reason)
	}
	if known, ok := endsByCode[e.Code]; ok && e.Reason != known.Reason && !strings.HasPrefix(e.Reason, known.Reason+":") {
		bad("codes.md#disconnects", "code %d has the reason %q, whose text is %q", e.Code, e.Reason, known.Reason)
	}
}

// Alive fails unless the connection still answers.
func (c *Client) Alive() { c.OK(Unsubscribe("conformance-nothing")) }

// Still fails if a reply that satisfies a function comes before the answer to a command.
func (c *Client) Still(what string, is func(*protocol.Reply) bool) {
	c.Alive()
	if i := slices.IndexFunc(c.Pending, is); i >= 0 {
		c.Fail("%s comes", what)
	}
	for deadline := time.Now().Add(c.Moment); ; {
		r, err := c.Take(time.Until(deadline))
		switch {
		case errors.Is(err, talk.ErrTimeout):
			return
		case err != nil:
			c.Broke(err, "waiting a moment")
		case r == nil:
		case is(r):
			c.Fail("%s comes", what)
		default:
			c.Pending = append(c.Pending, r)
		}
	}
}

// Attempt makes an error of a failure.
func (t *Probe) Attempt(f func()) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case Failure:
			err = errors.New(v.Text)
		default:
			panic(v)
		}
	}()
	f()
	return nil
}
