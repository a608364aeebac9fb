package atlas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/wire"
	"github.com/gyrohq/gyro/internal/wsclient"
	"github.com/gyrohq/gyro/protocol"
)

const (
	phaseLive = iota
	phaseStream
	phaseState
)

const pageSize = 5

// Codes of the client protocol that a client acts upon.
const (
	codeUnrecoverable = 112
	codeInsufficient  = 2500
)

// silence bounds the time without any message, pings included.
const silence = 20 * time.Second

// client has one subscription to a map. Like an SDK, it reconnects, recovers from its position, and begins anew if the
// server tells it to.
type client struct {
	channel string
	nodes   []string
	node    int // index of the one in use
	fail    func(string)

	// Of the goroutine that runs the client.
	conn  *wsclient.Conn
	id    int
	phase int    // that was asked for
	from  cursor // that was sent
	draft map[string]string
	// known is set if the client can recover from at.
	known bool

	mu      sync.Mutex
	live    bool
	entries map[string]string
	at      cursor
	told    int // how often the server told the client to begin anew
	changes int
}

type cursor struct {
	offset     uint64
	epoch, key string
}

type reply struct {
	ID    int `json:"id"`
	Error *struct {
		Code    int
		Message string
	}
	Subscribe *struct {
		Phase        int
		Offset       uint64
		Epoch        string
		Cursor       string
		State        []entry
		Publications []entry
	}
	Push *struct {
		Pub         *entry
		Unsubscribe *struct{ Code int }
	}
}

type entry struct {
	Key     string
	Data    json.RawMessage
	Offset  uint64
	Removed bool
}

func (c *client) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := c.session(ctx)
		c.mu.Lock()
		c.live = false
		c.mu.Unlock()
		var end *wsclient.CloseError
		if errors.Is(err, wire.ErrProtocol) || errors.As(err, &end) && (protocol.Disconnect{Code: end.Code}).Terminal() {
			c.fail(c.channel + ": " + err.Error())
		}
		c.node = (c.node + 1) % len(c.nodes)
		wire.Sleep(ctx, 20*time.Millisecond+rand.N(200*time.Millisecond))
	}
}

func (c *client) session(ctx context.Context) (err error) {
	if c.conn, err = wire.Dial(ctx, c.nodes[c.node], "/connection/websocket"); err != nil {
		return err
	}
	defer c.conn.Cut()
	defer context.AfterFunc(ctx, c.conn.Cut)()
	if err := wire.Send(c.conn, []byte(`{"id":1,"connect":{}}`)); err != nil {
		return err
	}
	c.id = 1
	for err = c.begin(); err == nil; {
		err = wire.Messages(c.conn, silence, func(r *reply) error { return c.take(ctx, r) })
	}
	return err
}

func (c *client) begin() error {
	c.draft = make(map[string]string)
	if !c.known {
		return c.ask(phaseState, cursor{})
	}
	maps.Copy(c.draft, c.entries)
	return c.ask(phaseStream, c.at)
}

func (c *client) ask(phase int, from cursor) error {
	c.id++
	c.phase, c.from = phase, from
	fields := fmt.Sprintf(`"channel":%q,"type":1,"phase":%d,"limit":%d`, c.channel, phase, pageSize)
	if from.epoch != "" {
		fields += fmt.Sprintf(`,"offset":%d,"epoch":%q`, from.offset, from.epoch)
	}
	if from.key != "" {
		fields += fmt.Sprintf(`,"cursor":%q`, from.key)
	}
	if phase == phaseStream && c.known {
		fields += `,"recover":true`
	}
	return wire.Send(c.conn, fmt.Appendf(nil, `{"id":%d,"subscribe":{%s}}`, c.id, fields))
}

func (c *client) take(ctx context.Context, r *reply) error {
	switch {
	case r.Error != nil:
		return c.refused(ctx, r.Error.Code, r.Error.Message)
	case r.Subscribe != nil:
		return c.page(r)
	case r.Push == nil:
		return nil
	case r.Push.Pub != nil:
		return c.change(r.Push.Pub)
	case r.Push.Unsubscribe != nil:
		if code := r.Push.Unsubscribe.Code; code < codeInsufficient {
			return fmt.Errorf("%w: unsubscribed with code %d", wire.ErrProtocol, code)
		}
		c.mu.Lock()
		c.live = false
		c.mu.Unlock()
		return c.begin()
	}
	return nil
}

func (c *client) refused(ctx context.Context, code int, message string) error {
	switch {
	case c.id == 1:
		return fmt.Errorf("%w: connect: error %d %s", wire.ErrProtocol, code, message)
	case code == codeUnrecoverable && c.known:
		c.known = false
		c.mu.Lock()
		c.told++
		c.mu.Unlock()
	case code == codeUnrecoverable: // the map went on, or began anew, between two pages
	case code == 100 || code == 103 || code == 113:
		wire.Sleep(ctx, 100*time.Millisecond+rand.N(100*time.Millisecond))
	default:
		return fmt.Errorf("%w: error %d %s", wire.ErrProtocol, code, message)
	}
	return c.begin()
}

func (c *client) page(r *reply) error {
	p := r.Subscribe
	if r.ID != c.id {
		return fmt.Errorf("%w: reply %d to command %d", wire.ErrProtocol, r.ID, c.id)
	}
	for _, e := range p.State {
		if _, twice := c.draft[e.Key]; twice {
			return fmt.Errorf("%w: entry %q is in two pages", wire.ErrProtocol, e.Key)
		}
		c.draft[e.Key] = compact(e.Data)
	}
	for i := range p.Publications {
		c.apply(c.draft, &p.Publications[i])
	}
	switch p.Phase {
	case phaseState:
		next := cursor{offset: p.Offset, epoch: p.Epoch, key: p.Cursor}
		if p.Cursor == "" {
			return c.ask(phaseStream, next)
		}
		return c.ask(phaseState, next)
	case phaseStream:
		if p.Offset <= c.from.offset {
			return fmt.Errorf("%w: a page of changes ends at %d, behind %d", wire.ErrProtocol, p.Offset, c.from.offset)
		}
		return c.ask(phaseStream, cursor{offset: p.Offset, epoch: p.Epoch})
	}
	c.known = true
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live, c.entries, c.at = true, c.draft, cursor{offset: p.Offset, epoch: p.Epoch}
	return nil
}

func (c *client) apply(to map[string]string, e *entry) {
	if e.Removed {
		delete(to, e.Key)
		return
	}
	to[e.Key] = compact(e.Data)
}

func (c *client) change(e *entry) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Offset != c.at.offset+1 {
		return fmt.Errorf("%w: offset %d behind %d", wire.ErrProtocol, e.Offset, c.at.offset)
	}
	if _, has := c.entries[e.Key]; e.Removed && !has {
		return fmt.Errorf("%w: %q was removed twice", wire.ErrProtocol, e.Key)
	}
	c.at.offset = e.Offset
	c.changes++
	c.apply(c.entries, e)
	return nil
}

func (c *client) shows(want map[string]string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live && maps.Equal(c.entries, want)
}

func (c *client) isLive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live
}

func (c *client) describe(want map[string]string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("a subscriber of %s, live: %v, at %v, has %v, want %v", c.channel, c.live, c.at, c.entries, want)
}

func (c *client) count() (told, changes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	told, changes = c.told, c.changes
	c.told, c.changes = 0, 0
	return told, changes
}
