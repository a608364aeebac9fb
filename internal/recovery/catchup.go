package recovery

import (
	"cmp"
	"slices"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// Phases of SubscribeRequest and SubscribeResult.
const (
	PhaseLive int32 = iota
	PhaseStream
	PhaseState
)

type Step uint8

const (
	ReadState   Step = iota + 1 // a page of entries: Catchup.Entries
	ReadChanges                 // a page of changes: Catchup.Changes
	GoLive                      // the subscription is established, with the changes since Catchup.Since
)

// Catchup brings one subscriber of a map up to date (docs/maps.md): by pages of the entries, then of the changes since
// the first page, until so few are left that the subscription can go live. It decides on reads and results, and reads
// nothing itself. It is for one goroutine.
type Catchup struct {
	opts *channel.MapSubscription
	// until is in Unix nanoseconds; 0: no limit.
	until int64
	// budget is in bytes of a page.
	budget int

	limit  int
	cursor string
	// top is the position of the first page: entries that changed later come with the changes.
	top   channel.StreamPosition
	begun bool
	anew  bool // the subscriber got entries
	// target is the top at the first page of changes; 0 before.
	target uint64
	since  channel.StreamPosition
}

// NewCatchup begins at the time now. budget is in bytes of publications.
func NewCatchup(opts *channel.MapSubscription, now int64, budget int) *Catchup {
	c := &Catchup{opts: opts, budget: budget}
	if wait := cmp.Or(opts.CatchUpTimeout, channel.DefaultCatchUpTimeout); wait > 0 {
		c.until = now + int64(wait)
	}
	return c
}

// Late tells whether the subscriber has taken too long.
func (c *Catchup) Late(now int64) bool { return c.until > 0 && now > c.until }

// Ephemeral tells whether changes are buffered from the first page on, because the map has no stream.
func (c *Catchup) Ephemeral() bool { return c.opts.Ephemeral }

// Resumes reports whether the subscriber keeps the entries that it had before.
func (c *Catchup) Resumes(req *protocol.SubscribeRequest) bool {
	return req.Recover && req.Phase != PhaseState && !c.anew && !c.opts.Ephemeral
}

// Since is the position from where changes are read to go live.
func (c *Catchup) Since() channel.StreamPosition { return c.since }

// LiveLimit is how many changes may be left when a subscription goes live.
func (c *Catchup) LiveLimit() int {
	return cmp.Or(c.opts.LiveLimit, c.opts.MaxPageSize, channel.DefaultMaxPageSize)
}

func (c *Catchup) pageSize(wish int32) int {
	size := int(wish)
	if size <= 0 {
		size = cmp.Or(c.opts.PageSize, channel.DefaultPageSize)
	}
	size = max(size, cmp.Or(c.opts.MinPageSize, channel.DefaultPageSize))
	return min(size, cmp.Or(c.opts.MaxPageSize, channel.DefaultMaxPageSize))
}

// Ask decides on the next step. The error is the client's answer; the subscriber must begin anew then.
func (c *Catchup) Ask(req *protocol.SubscribeRequest) (Step, error) {
	c.limit = c.pageSize(req.Limit)
	known := c.begun && !c.opts.Ephemeral
	if known && req.Epoch != "" && req.Epoch != c.top.Epoch {
		return 0, protocol.ErrorUnrecoverablePosition
	}
	c.since = channel.StreamPosition{Offset: req.Offset, Epoch: cmp.Or(req.Epoch, c.top.Epoch)}
	switch {
	case req.Phase == PhaseStream && !c.begun && !req.Recover && !c.opts.Ephemeral:
		return 0, protocol.ErrorPermissionDenied // changes without the entries before them
	case req.Phase != PhaseState && c.since.Epoch == "" && c.since.Offset > 0 && !c.opts.Ephemeral:
		return 0, protocol.ErrorUnrecoverablePosition // the stream of the offset is unknown
	case req.Phase == PhaseState:
		c.cursor = req.Cursor
		return ReadState, nil
	case req.Phase == PhaseLive:
		return GoLive, nil
	case req.Phase != PhaseStream, c.opts.Ephemeral:
		return 0, protocol.ErrorBadRequest
	case c.target > 0 && c.near(c.target):
		return GoLive, nil
	}
	return ReadChanges, nil
}

func (c *Catchup) near(top uint64) bool { return c.since.Offset+uint64(c.limit) >= top }

// StateFilter is for ReadState.
func (c *Catchup) StateFilter() channel.StateFilter {
	return channel.StateFilter{Cursor: c.cursor, Limit: c.limit}
}

// HistoryFilter is for ReadChanges.
func (c *Catchup) HistoryFilter() channel.HistoryFilter {
	return channel.HistoryFilter{Since: new(c.since), Limit: c.limit}
}

// Page is one reply to a client that is not live yet.
type Page struct {
	Publications []*channel.Publication
	Cursor       string // of the next page of entries
	Position     channel.StreamPosition
	// Top of the map. Pages from the same cursor, with the same Limit, Top and Position, have the same entries, unless
	// the map is ephemeral or a filter drops some.
	Top   channel.StreamPosition
	From  string // the cursor that the page began with
	Limit int
}

// Entries takes a page of entries. If live is set, the subscription goes live in the reply that has them. The error is
// the client's answer; the subscriber must begin anew then.
func (c *Catchup) Entries(s channel.State, passes func(*channel.Publication) bool) (p Page, live bool, err error) {
	later := c.begun && !c.opts.Ephemeral
	switch {
	case !c.begun:
		c.begun, c.anew = true, true
		if !c.opts.Ephemeral {
			c.top = s.Top
		}
	case later && s.Top.Epoch != c.top.Epoch:
		return p, false, protocol.ErrorUnrecoverablePosition
	}
	p = Page{Cursor: s.Cursor, Position: c.top, Top: s.Top, From: c.cursor, Limit: c.limit}
	c.fillPage(&p, s.Entries, later, passes)
	c.since = c.top
	return p, p.Cursor == "" && (c.opts.Ephemeral || c.near(s.Top.Offset)), nil
}

// fillPage puts the subscriber's entries into a page: mostly all of them, in the list itself. A page over the budget ends
// before the entry that is too much.
func (c *Catchup) fillPage(p *Page, entries []*channel.Publication, later bool, passes func(*channel.Publication) bool) {
	size, passed := 0, 0
	for i, e := range entries {
		if later && e.Offset > c.top.Offset || !passes(e) {
			continue
		}
		if size += Size(e); size > c.budget && passed > 0 {
			p.Cursor, entries = entries[i-1].Key, entries[:i]
			break
		}
		switch {
		case passed == i: // none was left out so far
		case p.Publications == nil:
			p.Publications = append(slices.Clone(entries[:passed]), e)
		default:
			p.Publications = append(p.Publications, e)
		}
		passed++
	}
	switch {
	case passed == len(entries):
		p.Publications = entries
	case p.Publications == nil: // all that follow the first ones were left out
		p.Publications = entries[:passed:passed]
	}
}

// Changes takes a page of changes. If live is set, the client gets none of them: they are read again when it goes live.
func (c *Catchup) Changes(h channel.History, passes func(*channel.Publication) bool) (p Page, live bool, err error) {
	if c.since.Epoch != "" && c.since.Epoch != h.Top.Epoch || c.since.Offset > h.Top.Offset {
		return p, false, protocol.ErrorUnrecoverablePosition
	}
	if !c.begun {
		c.begun, c.top = true, h.Top
	}
	c.since.Epoch = h.Top.Epoch
	if c.target == 0 {
		c.target = h.Top.Offset
	}
	if c.near(c.target) {
		return p, true, nil
	}
	if len(h.Publications) == 0 || h.Publications[0].Offset != c.since.Offset+1 {
		return p, false, protocol.ErrorUnrecoverablePosition // the stream has lost the next change
	}
	size := 0
	for i, e := range h.Publications {
		if size += Size(e); size > c.budget && i > 0 {
			break
		}
		c.since.Offset = e.Offset
		if passes(e) {
			p.Publications = append(p.Publications, e)
		}
	}
	p.Position = channel.StreamPosition{Offset: c.since.Offset, Epoch: c.top.Epoch}
	return p, false, nil
}
