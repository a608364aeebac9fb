package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/cli/client"
	"github.com/gyrohq/gyro/server/internal/apicall"
)

// Bounds of Tail.
const (
	// maxHeld bounds the publications that wait for the history of their channel.
	maxHeld = 100_000
	// page is how many publications one request for history asks for.
	page = 1000
)

// Tail prints the last publications of channels, and then what comes.
type Tail struct {
	Remote
	Channels []string
	// Lines are how many publications of each channel are printed first; 0: none.
	Lines int
	// Count is after how many publications the command ends; 0: never.
	Count int
	// OverAPI asks the server API for history every Interval instead of connecting as a client.
	OverAPI  bool
	Interval time.Duration
	Kind
}

// Run prints until ctx ends, Count is reached, or the server refuses.
func (t *Tail) Run(ctx context.Context, out *Output) error {
	if _, err := channels(t.Channels, t.Kind, nil); err != nil {
		return err
	}
	if err := t.check(); err != nil {
		return err
	}
	if t.Type != client.Stream && t.OverAPI {
		return Usage("via: only streams have a history to be read over the API")
	}
	f := &follower{t: t, printer: *newPrinter(out, t.Channels, t.Kind, t.Count), streams: make(map[string]*stream)}
	for _, name := range t.Channels {
		f.streams[name] = &stream{}
	}
	if t.OverAPI {
		api, err := t.Caller()
		if err != nil {
			return err
		}
		return done(f.poll(ctx, api))
	}
	return done(f.follow(ctx))
}

// follower prints the history of channels, then what is new.
type follower struct {
	t       *Tail
	mu      sync.Mutex // guards what follows, and orders what is printed
	printer printer
	streams map[string]*stream
}

// stream is what was printed of a channel.
type stream struct {
	begun bool                    // its history was asked for
	live  bool                    // its history was printed
	held  []*protocol.Publication // came before the history was printed
	last  uint64                  // offset of the last publication that was printed
	epoch string
}

// follow connects as a client. The history of a channel is read once the client is subscribed to it, and what comes
// meanwhile waits. So nothing is missing between the two, and what both have is printed once.
func (f *follower) follow(ctx context.Context) error {
	cfg, err := f.t.client()
	if err != nil {
		return err
	}
	if cfg.Channels, err = channels(f.t.Channels, f.t.Kind, nil); err != nil {
		return err
	}
	cfg.Delta = f.t.Delta
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var reading sync.WaitGroup
	defer reading.Wait()
	var c *client.Client
	cfg.Handle = func(e client.Event) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		s := f.streams[e.Channel]
		switch {
		case f.t.Type != client.Stream && s != nil:
			return f.keyed(s, e)
		case e.Kind == client.Published:
			return f.published(e.Channel, s, e.Publication)
		case e.Kind == client.Subscribed && !s.begun:
			s.begun, s.epoch = true, e.Result.Epoch
			if s.live = f.t.Lines <= 0; !s.live {
				reading.Go(func() {
					if err := f.history(ctx, c, e.Channel); err != nil {
						cancel(err)
					}
				})
			}
		case e.Kind == client.Subscribed && s.epoch != e.Result.Epoch:
			s.epoch, s.last = e.Result.Epoch, 0
		}
		return f.printer.event(e)
	}
	c = client.New(cfg)
	err = c.Run(ctx)
	cancel(err)
	return err
}

// keyed handles an event of a channel with keys. While a map is caught up with, its entries are held; of those, the ones that have
// changed last are printed. After a reset, all are.
func (f *follower) keyed(s *stream, e client.Event) error {
	collects := !s.live && f.t.Type != client.SharedPoll
	switch {
	case e.Kind == client.Reset:
		s.live = false
	case e.Kind == client.Subscribed && collects:
		return f.caughtUp(s, e)
	case collects && (e.Kind == client.Entry || e.Kind == client.Published):
		if e.Kind == client.Published {
			s.held = slices.DeleteFunc(s.held, func(p *protocol.Publication) bool { return p.Key == e.Publication.Key })
		}
		switch {
		case e.Publication.Removed:
		case len(s.held) >= maxHeld:
			return fmt.Errorf("%s: it has more than %d entries: gyro sub prints them as they come", e.Channel, maxHeld)
		default:
			s.held = append(s.held, e.Publication)
		}
		return nil
	}
	return f.printer.event(e)
}

// caughtUp prints the entries of a map.
func (f *follower) caughtUp(s *stream, e client.Event) error {
	held := s.held
	s.live, s.held = true, nil
	slices.SortStableFunc(held, func(a, b *protocol.Publication) int { return cmp.Compare(a.Offset, b.Offset) })
	if !s.begun {
		held = held[max(0, len(held)-f.t.Lines):]
	}
	s.begun = true
	for _, pub := range held {
		if err := f.printer.publication(client.Entry, e.Channel, pub); err != nil {
			return err
		}
	}
	return f.printer.event(e)
}

// published prints a publication, or holds it until the history was printed.
func (f *follower) published(ch string, s *stream, pub *protocol.Publication) error {
	switch {
	case !s.live && len(s.held) >= maxHeld:
		return fmt.Errorf("%s: %d publications came before the history", ch, maxHeld)
	case !s.live:
		s.held = append(s.held, pub)
		return nil
	case pub.Offset > 0 && pub.Offset <= s.last:
		return nil
	case pub.Offset > 0:
		s.last = pub.Offset
	}
	return f.printer.publication(client.Published, ch, pub)
}

// history prints the last publications of a channel and what is held. A channel that has no history has none to print.
func (f *follower) history(ctx context.Context, c *client.Client, ch string) error {
	pubs, err := f.read(ctx, c, ch)
	if err != nil {
		var refused *protocol.Error
		var failed *apicall.Error
		if !errors.As(err, &refused) && !errors.As(err, &failed) {
			return fmt.Errorf("history of %q: %w", ch, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.printer.out.say("%s: its history cannot be read (%v): only what is new follows", ch, err)
	}
	s := f.streams[ch]
	s.live = true
	held := s.held
	s.held = nil
	for i := range pubs {
		if err := f.published(ch, s, pubs[len(pubs)-1-i]); err != nil {
			return err
		}
	}
	for _, pub := range held {
		if err := f.published(ch, s, pub); err != nil {
			return err
		}
	}
	return nil
}

// read returns the last publications of a channel, the newest first: over the server API if there is a key for it, else as the client.
func (f *follower) read(ctx context.Context, c *client.Client, ch string) ([]*protocol.Publication, error) {
	if f.t.APIKey != "" {
		api, err := f.t.Caller()
		if err != nil {
			return nil, err
		}
		res, err := history(ctx, api, historyRequest{Channel: ch, Limit: f.t.Lines, Reverse: true})
		return res.publications(), err
	}
	r, err := c.Do(ctx, &protocol.Command{History: &protocol.HistoryRequest{Channel: ch, Limit: int32(f.t.Lines), Reverse: true}})
	if err != nil {
		return nil, err
	}
	if r.History == nil {
		return nil, errors.New("the reply has no result")
	}
	return r.History.Publications, nil
}

// historyRequest and historyResult are those of the server API.
type historyRequest struct {
	Channel string    `json:"channel"`
	Limit   int       `json:"limit"`
	Reverse bool      `json:"reverse,omitempty"`
	Since   *position `json:"since,omitempty"`
}

type position struct {
	Offset uint64 `json:"offset"`
	Epoch  string `json:"epoch"`
}

type historyResult struct {
	Publications []struct {
		Data   json.RawMessage   `json:"data"`
		Offset uint64            `json:"offset"`
		Tags   map[string]string `json:"tags"`
		Info   *struct {
			User     string          `json:"user"`
			Client   string          `json:"client"`
			ConnInfo json.RawMessage `json:"conn_info"`
			ChanInfo json.RawMessage `json:"chan_info"`
		} `json:"info"`
	} `json:"publications"`
	Offset uint64 `json:"offset"`
	Epoch  string `json:"epoch"`
}

func history(ctx context.Context, api *apicall.Caller, r historyRequest) (res historyResult, err error) {
	return res, api.Call(ctx, "history", r, &res)
}

// publications returns them as a client gets them.
func (r *historyResult) publications() []*protocol.Publication {
	out := make([]*protocol.Publication, len(r.Publications))
	for i, p := range r.Publications {
		out[i] = &protocol.Publication{Data: p.Data, Offset: p.Offset, Tags: p.Tags}
		if p.Info != nil {
			out[i].Info = &protocol.ClientInfo{User: p.Info.User, Client: p.Info.Client, ConnInfo: p.Info.ConnInfo, ChanInfo: p.Info.ChanInfo}
		}
	}
	return out
}

// unrecoverable is the code of an API's error: the position is of another epoch.
const unrecoverable = 112

// poll reads the history of the channels again and again.
func (f *follower) poll(ctx context.Context, api *apicall.Caller) error {
	for _, ch := range f.t.Channels {
		res, err := history(ctx, api, historyRequest{Channel: ch, Limit: f.t.Lines, Reverse: true})
		if err != nil {
			return fmt.Errorf("%q: %w", ch, err)
		}
		s, pubs := f.streams[ch], res.publications()
		s.live, s.epoch = true, res.Epoch
		for i := range pubs {
			if err := f.published(ch, s, pubs[len(pubs)-1-i]); err != nil {
				return err
			}
		}
		s.last = res.Offset
	}
	for {
		for _, ch := range f.t.Channels {
			if err := f.news(ctx, api, ch, f.streams[ch]); err != nil {
				return err
			}
		}
		select {
		case <-time.After(f.t.Interval):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// news prints what a stream has that was not printed.
func (f *follower) news(ctx context.Context, api *apicall.Caller, ch string, s *stream) error {
	for {
		res, err := history(ctx, api, historyRequest{Channel: ch, Limit: page, Since: &position{s.last, s.epoch}})
		var failed *apicall.Error
		if errors.As(err, &failed) && failed.Code == unrecoverable {
			f.printer.out.say("%s: the stream has begun anew; publications may be missing", ch)
			s.last, s.epoch = 0, ""
			if res, err = history(ctx, api, historyRequest{Channel: ch, Limit: page}); err == nil {
				s.epoch = res.Epoch
			}
		}
		if err != nil {
			return fmt.Errorf("%q: %w", ch, err)
		}
		pubs := res.publications()
		if len(pubs) > 0 && s.last > 0 && pubs[0].Offset > s.last+1 {
			f.printer.out.say("%s: %d publications have left the history before they were read", ch, pubs[0].Offset-s.last-1)
		}
		for _, pub := range pubs {
			if err := f.published(ch, s, pub); err != nil {
				return err
			}
		}
		if len(pubs) < page {
			s.last = max(s.last, res.Offset)
			return nil
		}
	}
}
